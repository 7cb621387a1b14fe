/* What C alone can do: several threads, a fork, and calls in the wrong order. */
#define _POSIX_C_SOURCE 200809L
#include <perdura.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#define EXPECT(call, code)                                                                        \
    do {                                                                                          \
        int got = (call);                                                                         \
        if (got != (code)) {                                                                      \
            fprintf(stderr, "line %d: %s: %d (%s), not %d\n", __LINE__, #call, got,               \
                    perdura_last_error(), (code));                                                \
            exit(1);                                                                              \
        }                                                                                         \
    } while (0)

static perdura_pool pool;
static perdura_session shared;
static perdura_offset counter;

/* Many threads, each with a session of its own; all try to use another thread's session, too. */
static void *work(void *unused) {
    perdura_session mine;
    uint64_t value;
    (void)unused;
    EXPECT(perdura_session_open(pool, &mine), PERDURA_OK);
    for (int i = 0; i < 200; i++) {
        perdura_begin(mine, PERDURA_WRITE);
        perdura_read_u64(mine, counter, &value);
        perdura_write_u64(mine, counter, value + 1);
        EXPECT(perdura_commit(mine), PERDURA_OK);
        int code = perdura_read_u64(shared, counter, &value);
        if (code != PERDURA_ERR_THREAD && code != PERDURA_ERR_NO_TX)
            EXPECT(code, PERDURA_ERR_THREAD);
    }
    EXPECT(perdura_session_close(mine), PERDURA_OK);
    return NULL;
}

/* A thread that dies with a transaction open. */
static void *die(void *session) {
    EXPECT(perdura_begin(*(perdura_session *)session, PERDURA_WRITE), PERDURA_OK);
    EXPECT(perdura_write_u64(*(perdura_session *)session, counter, 7), PERDURA_OK);
    return NULL;
}

static void fork_and_look(void) {
    int status;
    pid_t child = fork();
    if (child == 0) {
        uint64_t value;
        int wrong = perdura_begin(shared, PERDURA_READ) != PERDURA_ERR_FORKED;
        wrong |= perdura_read_u64(shared, counter, &value) != PERDURA_ERR_FORKED;
        wrong |= perdura_session_close(shared) != PERDURA_ERR_FORKED;
        wrong |= perdura_pool_close(pool) != PERDURA_ERR_FORKED;
        _exit(wrong);
    }
    if (child < 0 || waitpid(child, &status, 0) != child || status != 0) {
        fprintf(stderr, "a child could use the parent's pool\n");
        exit(1);
    }
}

int main(int count, char **arguments) {
    perdura_options options;
    perdura_session other;
    pthread_t threads[4], dying;
    uint64_t value;

    if (count < 2)
        return 2;
    EXPECT(perdura_options_init(&options, sizeof options), PERDURA_OK);
    options.size = 8 << 20;
    EXPECT(perdura_pool_create(arguments[1], &options, &pool), PERDURA_OK);
    EXPECT(perdura_session_open(pool, &shared), PERDURA_OK);
    perdura_begin(shared, PERDURA_WRITE);
    perdura_alloc(shared, PERDURA_GENERAL, 8, &counter);
    perdura_write_u64(shared, counter, 0);
    perdura_root_set(shared, "counter", counter, PERDURA_FIRST_KIND);
    EXPECT(perdura_commit(shared), PERDURA_OK);

    for (int i = 0; i < 4; i++)
        pthread_create(&threads[i], NULL, work, NULL);
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);

    EXPECT(perdura_session_open(pool, &other), PERDURA_OK);
    pthread_create(&dying, NULL, die, &other);
    pthread_join(dying, NULL);
    EXPECT(perdura_commit(other), PERDURA_ERR_THREAD);
    EXPECT(perdura_session_close(other), PERDURA_OK);

    fork_and_look();

    EXPECT(perdura_begin(shared, PERDURA_READ), PERDURA_OK);
    EXPECT(perdura_read_u64(shared, counter, &value), PERDURA_OK);
    EXPECT(perdura_commit(shared), PERDURA_OK);
    EXPECT(perdura_pool_close(pool), PERDURA_ERR_BUSY);
    EXPECT(perdura_session_close(shared), PERDURA_OK);
    EXPECT(perdura_pool_close(pool), PERDURA_OK);
    EXPECT(perdura_pool_close(pool), PERDURA_ERR_HANDLE);
    if (value != 4 * 200)
        return fprintf(stderr, "%llu commits\n", (unsigned long long)value), 1;
    puts("as it should be");
    return 0;
}
