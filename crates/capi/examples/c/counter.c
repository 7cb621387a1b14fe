/*
 * Counts its own runs, durably.
 *
 *     counter PATH
 */
#include <perdura.h>
#include <stdio.h>

static int failed(const char *doing) {
    fprintf(stderr, "%s: %s\n", doing, perdura_last_error());
    return 1;
}

int main(int count, char **arguments) {
    perdura_pool pool;
    perdura_session session;
    perdura_offset at;
    uint64_t runs = 0;

    if (count != 2)
        return fprintf(stderr, "usage: %s PATH\n", arguments[0]), 2;
    if (perdura_pool_open_or_create(arguments[1], NULL, &pool) != PERDURA_OK)
        return failed("opening the pool");
    if (perdura_session_open(pool, &session) != PERDURA_OK)
        return failed("opening a session");

    perdura_begin(session, PERDURA_WRITE);
    perdura_root_get(session, "runs", &at, NULL);
    if (at == 0) {
        perdura_alloc(session, PERDURA_GENERAL, sizeof runs, &at);
        perdura_root_set(session, "runs", at, PERDURA_FIRST_KIND);
    } else {
        perdura_read_u64(session, at, &runs);
    }
    perdura_write_u64(session, at, runs + 1);
    /* If any of these failed, the commit does, and nothing has happened. */
    if (perdura_commit(session) != PERDURA_OK)
        return failed("counting");
    printf("run %llu\n", (unsigned long long)runs + 1); /* Durable from here on. */

    perdura_session_close(session);
    return perdura_pool_close(pool) == PERDURA_OK ? 0 : failed("closing the pool");
}
