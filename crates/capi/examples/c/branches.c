/*
 * Accounts with a lock each, between which threads transfer at the same time, in sections of the engine atlas.
 *
 *     branches PATH THREADS TRANSFERS
 *
 * Each run prints what it found; each thread makes its transfers, each acknowledged when it is durable. Then the books
 * are checked. Kill it at any moment and run it again.
 */
#include <perdura.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

enum { ACCOUNTS = 6, EACH = 100, KIND = PERDURA_FIRST_KIND, MOST_THREADS = 16 };

/* An account is an object of its own, and its offset is the number of its lock. */
typedef struct {
    uint64_t balance, given;
} account;

static perdura_pool pool;
static perdura_offset accounts[ACCOUNTS];
static long transfers;

static void check(int code, const char *doing) {
    if (code != PERDURA_OK) {
        fprintf(stderr, "%s: %s\n", doing, perdura_last_error());
        exit(1);
    }
}

/* Finds the accounts, or makes them: in a transaction, before there are sections. */
static void find_or_make(perdura_session session) {
    perdura_offset at;

    perdura_begin(session, PERDURA_WRITE);
    check(perdura_root_get(session, "accounts", &at, NULL), "looking for the accounts");
    if (at == 0) {
        account fresh = {EACH, 0};
        for (int i = 0; i < ACCOUNTS; i++) {
            perdura_alloc(session, PERDURA_GENERAL, sizeof fresh, &accounts[i]);
            perdura_write_fresh(session, accounts[i], &fresh, sizeof fresh);
        }
        perdura_alloc(session, PERDURA_GENERAL, sizeof accounts, &at);
        perdura_write_fresh(session, at, accounts, sizeof accounts);
        perdura_root_set(session, "accounts", at, KIND);
    } else {
        perdura_read(session, at, accounts, sizeof accounts);
    }
    check(perdura_commit(session), "opening the accounts");
}

/* One section. Its locks are taken in any order, so that it may have to be run again. */
static int try_to_move(perdura_session session, perdura_offset from, perdura_offset to) {
    account giver, taker;

    check(perdura_begin_section(session), "beginning a section");
    if (perdura_lock(session, from) != PERDURA_OK || perdura_lock(session, to) != PERDURA_OK) {
        int code = perdura_last_code();
        check(perdura_abort(session), "rolling back");
        return code;
    }
    check(perdura_read(session, from, &giver, sizeof giver), "reading an account");
    check(perdura_read(session, to, &taker, sizeof taker), "reading an account");
    if (giver.balance > 0) {
        giver.balance -= 1;
        taker.balance += 1;
    }
    giver.given += 1;
    perdura_write(session, from, &giver, sizeof giver);
    perdura_write(session, to, &taker, sizeof taker);
    return perdura_commit(session);
}

static void *work(void *number) {
    uint64_t random = *(const int *)number * 2 + 1;
    perdura_session session;

    check(perdura_session_open(pool, &session), "opening a session");
    for (long i = 1; i <= transfers; i++) {
        random = random * 6364136223846793005u + 1442695040888963407u;
        int from = (random >> 33) % ACCOUNTS, to = (from + 1 + (random >> 50) % (ACCOUNTS - 1)) % ACCOUNTS;
        int code;
        while ((code = try_to_move(session, accounts[from], accounts[to])) == PERDURA_ERR_DEADLOCK)
            ;
        check(code, "a transfer");
        printf("transfer %ld of thread %d is durable\n", i, *(const int *)number);
        fflush(stdout);
    }
    check(perdura_session_close(session), "closing a session");
    return NULL;
}

/* No money may have come or gone. No sections are running. */
static void tell(perdura_session session, const char *when) {
    account now;
    uint64_t sum = 0, given = 0;

    perdura_begin(session, PERDURA_READ);
    for (int i = 0; i < ACCOUNTS; i++) {
        check(perdura_read(session, accounts[i], &now, sizeof now), "reading an account");
        sum += now.balance;
        given += now.given;
    }
    check(perdura_commit(session), "reading");
    printf("%s: %llu in all, %llu transfers\n", when, (unsigned long long)sum, (unsigned long long)given);
    if (sum != (uint64_t)ACCOUNTS * EACH) {
        fprintf(stderr, "the books do not balance\n");
        exit(1);
    }
}

int main(int count, char **arguments) {
    perdura_options options;
    perdura_session session;
    pthread_t threads[MOST_THREADS];
    int numbers[MOST_THREADS], running;

    if (count != 4 || (running = atoi(arguments[2])) < 0 || running > MOST_THREADS) {
        fprintf(stderr, "usage: %s PATH THREADS TRANSFERS (at most %d threads)\n", arguments[0], MOST_THREADS);
        return 2;
    }
    transfers = atol(arguments[3]);
    check(perdura_options_init(&options, sizeof options), "options");
    options.size = 16 << 20;
    options.engine = "atlas";
    check(perdura_pool_open_or_create(arguments[1], &options, &pool), "opening the pool");
    check(perdura_session_open(pool, &session), "opening a session");
    find_or_make(session);
    tell(session, "found");
    for (int i = 0; i < running; i++) {
        numbers[i] = i;
        if (pthread_create(&threads[i], NULL, work, &numbers[i]) != 0)
            return fprintf(stderr, "a thread cannot be started\n"), 1;
    }
    for (int i = 0; i < running; i++)
        pthread_join(threads[i], NULL);
    tell(session, "left");

    check(perdura_session_close(session), "closing the session");
    check(perdura_pool_close(pool), "closing the pool");
    return 0;
}
