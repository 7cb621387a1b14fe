/*
 * A ranking in an ordered map that survives.
 *
 *     scores PATH < LINES
 *
 * A line is a name and its points: "ada 42". Each is a transaction on two maps, acknowledged when it
 * is durable; then the best three follow, and those with less than ten points. Kill it at any moment
 * and run it again: the maps agree.
 */
#include <perdura.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NAME = 64, BEST = 3 };

typedef struct {
    perdura_map points;  /* Of each name: its points. */
    perdura_map ranking; /* In order: points, then name; the values are empty. */
} scores;

/* Points, most significant byte first, so that their bytes are in the order of the numbers. */
typedef struct {
    unsigned char points[8];
    char name[NAME];
} place;

static void check(int code, const char *doing) {
    if (code != PERDURA_OK) {
        fprintf(stderr, "%s: %s\n", doing, perdura_last_error());
        exit(1);
    }
}

static void set_points(place *to, uint64_t points) {
    for (int i = 0; i < 8; i++)
        to->points[i] = (unsigned char)(points >> (56 - 8 * i));
}

static uint64_t points_of(const place *from) {
    uint64_t points = 0;
    for (int i = 0; i < 8; i++)
        points = points << 8 | from->points[i];
    return points;
}

/* Both maps change, or neither. */
static void set(perdura_session session, scores maps, const char *name, uint64_t points) {
    size_t len = strlen(name);
    uint64_t before = 0;
    perdura_buffer value = {&before, sizeof before, 0};
    place here;
    int found;

    memcpy(here.name, name, len);
    perdura_begin(session, PERDURA_WRITE);
    check(perdura_map_get(session, maps.points, name, len, &value, &found), "looking up a name");
    if (found) {
        set_points(&here, before);
        perdura_map_remove(session, maps.ranking, &here, 8 + len, NULL);
    }
    set_points(&here, points);
    perdura_map_put(session, maps.ranking, &here, 8 + len, NULL, 0, NULL);
    perdura_map_put(session, maps.points, name, len, &points, sizeof points, NULL);
    check(perdura_commit(session), "a score");
}

static void tell(const perdura_entry *entry) {
    const place *here = entry->key;
    printf("%llu %.*s\n", (unsigned long long)points_of(here), (int)(entry->key_len - 8),
           here->name);
}

static void tell_all(perdura_session session, scores maps) {
    perdura_cursor cursor;
    perdura_entry entry;
    perdura_bound ten = {NULL, 8, PERDURA_EXCLUDED};
    uint64_t names, places;
    place limit;

    perdura_begin(session, PERDURA_READ);
    /* From the end: the best first. */
    check(perdura_cursor_open(session, maps.ranking, NULL, NULL, &cursor), "opening a cursor");
    perdura_cursor_to_end(session, cursor);
    for (int i = 0; i < BEST; i++) {
        check(perdura_cursor_prev(session, cursor, &entry), "reading the ranking");
        if (entry.key == NULL)
            break;
        tell(&entry);
    }
    /* A range: up to ten points, exclusive. */
    set_points(&limit, 10);
    ten.key = &limit;
    check(perdura_cursor_open(session, maps.ranking, NULL, &ten, &cursor), "opening a cursor");
    puts("less than ten:");
    while (check(perdura_cursor_next(session, cursor, &entry), "reading"), entry.key != NULL)
        tell(&entry);

    perdura_map_len(session, maps.points, &names);
    perdura_map_len(session, maps.ranking, &places);
    check(perdura_commit(session), "reading");
    printf("%llu names\n", (unsigned long long)names);
    if (names != places) {
        fprintf(stderr, "the maps do not agree\n");
        exit(1);
    }
}

int main(int count, char **arguments) {
    perdura_pool pool;
    perdura_session session;
    scores maps;
    char line[256], name[NAME];
    unsigned long long points;

    if (count != 2) {
        fprintf(stderr, "usage: %s PATH < LINES\n", arguments[0]);
        return 2;
    }
    check(perdura_pool_open_or_create(arguments[1], NULL, &pool), "opening the pool");
    check(perdura_session_open(pool, &session), "opening a session");
    perdura_begin(session, PERDURA_WRITE);
    perdura_map_open_or_create(session, "points", PERDURA_HASH_MAP | PERDURA_U64_VALUES,
                               &maps.points);
    perdura_map_open_or_create(session, "ranking", PERDURA_ORDERED_MAP, &maps.ranking);
    check(perdura_commit(session), "opening the maps");

    while (fgets(line, sizeof line, stdin) != NULL) {
        if (sscanf(line, "%63s %llu", name, &points) != 2) {
            fprintf(stderr, "not a name and its points: %s", line);
            return 1;
        }
        set(session, maps, name, points);
        printf("%s is durable\n", name);
        fflush(stdout);
    }
    tell_all(session, maps);

    check(perdura_session_close(session), "closing the session");
    check(perdura_pool_close(pool), "closing the pool");
    return 0;
}
