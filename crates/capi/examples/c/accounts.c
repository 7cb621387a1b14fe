/*
 * Bank accounts that survive: transfers between them, and a durable list of those.
 *
 *     accounts PATH TRANSFERS [ENGINE]
 *
 * Each run prints what it found, makes the transfers, each acknowledged when it is durable, and
 * checks that no money came or went. Kill it at any moment and run it again.
 */
#include <perdura.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ACCOUNTS = 8, EACH = 100, KIND = PERDURA_FIRST_KIND };

/* What is in the pool. Offsets refer to other objects. */
typedef struct {
    uint64_t balances[ACCOUNTS];
    uint64_t transfers;
    perdura_offset last;
} bank;

typedef struct {
    perdura_offset previous;
    uint64_t from, to, amount;
} transfer;

static void check(int code, const char *doing) {
    if (code != PERDURA_OK) {
        fprintf(stderr, "%s: %s\n", doing, perdura_last_error());
        exit(1);
    }
}

/* The bank's offset, in the pool from an earlier run or from now on. */
static perdura_offset find_or_make(perdura_session session) {
    perdura_offset at;
    uint32_t kind;

    /* No call needs to be looked at alone: if one fails, so does the commit. */
    perdura_begin(session, PERDURA_WRITE);
    check(perdura_root_get(session, "bank", &at, &kind), "looking for the bank");
    if (at == 0) {
        bank fresh = {.transfers = 0, .last = 0};
        for (int i = 0; i < ACCOUNTS; i++)
            fresh.balances[i] = EACH;
        perdura_alloc(session, PERDURA_GENERAL, sizeof fresh, &at);
        perdura_write_fresh(session, at, &fresh, sizeof fresh);
        perdura_root_set(session, "bank", at, KIND);
        printf("made %d accounts with %d each\n", ACCOUNTS, EACH);
    } else if (kind != KIND) {
        fprintf(stderr, "the root 'bank' is of another program\n");
        exit(1);
    }
    check(perdura_commit(session), "opening the bank");
    return at;
}

/* Moves money, and notes it: both or neither. */
static void move(perdura_session session, perdura_offset at, uint64_t number) {
    bank now;
    transfer note;
    perdura_offset noted;

    perdura_begin(session, PERDURA_WRITE);
    check(perdura_read(session, at, &now, sizeof now), "reading the bank");
    note.previous = now.last;
    note.from = (number * 5 + 1) % ACCOUNTS;
    note.to = (number * 3 + 2) % ACCOUNTS;
    note.amount = now.balances[note.from] < 7 ? now.balances[note.from] : 7;

    now.balances[note.from] -= note.amount;
    now.balances[note.to] += note.amount;
    now.transfers += 1;
    perdura_alloc(session, PERDURA_LOG, sizeof note, &noted);
    perdura_write_fresh(session, noted, &note, sizeof note);
    now.last = noted;
    perdura_write(session, at, &now, sizeof now);
    check(perdura_commit(session), "a transfer");
}

/* Reads everything; no money may have come or gone, and no transfer be lost. */
static void tell(perdura_session session, perdura_offset at, const char *when) {
    bank now;
    transfer note;
    uint64_t sum = 0, listed = 0;

    perdura_begin(session, PERDURA_READ);
    check(perdura_read(session, at, &now, sizeof now), "reading the bank");
    for (int i = 0; i < ACCOUNTS; i++)
        sum += now.balances[i];
    for (perdura_offset next = now.last; next != 0; next = note.previous) {
        check(perdura_read(session, next, &note, sizeof note), "reading a transfer");
        listed += 1;
    }
    check(perdura_commit(session), "reading");
    printf("%s: %llu in all, %llu transfers\n", when, (unsigned long long)sum,
           (unsigned long long)now.transfers);
    if (sum != (uint64_t)ACCOUNTS * EACH || listed != now.transfers) {
        fprintf(stderr, "the books do not balance\n");
        exit(1);
    }
}

int main(int count, char **arguments) {
    perdura_options options;
    perdura_pool pool;
    perdura_session session;
    perdura_info info;

    if (count < 3) {
        fprintf(stderr, "usage: %s PATH TRANSFERS [ENGINE]\n", arguments[0]);
        return 2;
    }
    check(perdura_options_init(&options, sizeof options), "options");
    options.size = 16 << 20;
    options.engine = count > 3 ? arguments[3] : NULL;
    check(perdura_pool_open_or_create(arguments[1], &options, &pool), "opening the pool");
    check(perdura_pool_info(pool, &info, sizeof info), "asking about the pool");
    printf("perdura %s, engine %s\n", perdura_version(), info.engine);
    check(perdura_session_open(pool, &session), "opening a session");

    perdura_offset at = find_or_make(session);
    tell(session, at, "found");
    long transfers = atol(arguments[2]);
    for (long i = 1; i <= transfers; i++) {
        move(session, at, (uint64_t)i);
        printf("transfer %ld is durable\n", i);
        fflush(stdout);
    }
    tell(session, at, "left");

    check(perdura_session_close(session), "closing the session");
    check(perdura_pool_close(pool), "closing the pool");
    return 0;
}
