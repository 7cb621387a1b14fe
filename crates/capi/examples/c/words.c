/*
 * Counts words in a hash map that survives.
 *
 *     words PATH < TEXT
 *
 * Each line is a transaction, acknowledged when it is durable; the counts of all runs follow. Kill
 * it at any moment and run it again.
 */
#include <perdura.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Keys are byte strings; values are numbers, passed as their 8 bytes. */
enum { KIND = PERDURA_HASH_MAP | PERDURA_U64_VALUES, AT_ONCE = 100 };

static void check(int code, const char *doing) {
    if (code != PERDURA_OK) {
        fprintf(stderr, "%s: %s\n", doing, perdura_last_error());
        exit(1);
    }
}

/* Counts one more of a word, in the transaction that is open. */
static void count(perdura_session session, perdura_map words, const char *word) {
    uint64_t number = 0;
    perdura_buffer value = {&number, sizeof number, 0};
    int found;

    check(perdura_map_get(session, words, word, strlen(word), &value, &found), "looking it up");
    number += 1;
    perdura_map_put(session, words, word, strlen(word), &number, sizeof number, NULL);
}

typedef struct {
    uint64_t all, different;
} sum;

static void tell(void *context, const perdura_entry *entry) {
    sum *so_far = context;
    uint64_t number;

    memcpy(&number, entry->value, sizeof number);
    printf("%llu %.*s\n", (unsigned long long)number, (int)entry->key_len, (const char *)entry->key);
    so_far->all += number;
    so_far->different += 1;
}

int main(int arguments_count, char **arguments) {
    perdura_pool pool;
    perdura_session session;
    perdura_map words;
    sum total = {0, 0};
    uint64_t cursor = 0;
    char line[4096];

    if (arguments_count != 2) {
        fprintf(stderr, "usage: %s PATH < TEXT\n", arguments[0]);
        return 2;
    }
    check(perdura_pool_open_or_create(arguments[1], NULL, &pool), "opening the pool");
    check(perdura_session_open(pool, &session), "opening a session");
    perdura_begin(session, PERDURA_WRITE);
    perdura_map_open_or_create(session, "words", KIND, &words);
    check(perdura_commit(session), "opening the map");

    for (int number = 1; fgets(line, sizeof line, stdin) != NULL; number++) {
        perdura_begin(session, PERDURA_WRITE);
        for (char *word = strtok(line, " \t\r\n"); word != NULL; word = strtok(NULL, " \t\r\n"))
            count(session, words, word);
        check(perdura_commit(session), "counting");
        printf("line %d is durable\n", number);
        fflush(stdout);
    }

    /* Inside of a read transaction the map does not change, so that each word comes once. */
    perdura_begin(session, PERDURA_READ);
    do
        check(perdura_map_scan(session, words, &cursor, AT_ONCE, tell, &total), "reading");
    while (cursor != 0);
    check(perdura_commit(session), "reading");
    printf("%llu words, %llu different\n", (unsigned long long)total.all,
           (unsigned long long)total.different);

    check(perdura_session_close(session), "closing the session");
    check(perdura_pool_close(pool), "closing the pool");
    return 0;
}
