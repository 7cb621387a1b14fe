// A module that calls commands: `other.call WORD..` on the server's thread, `other.thread WORD..` on one of its own.
// Both answer with the type of the reply, and its text if it is an error.
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct Ctx Ctx;
typedef struct Text Text;
typedef struct Reply Reply;
typedef int Command(Ctx *, Text **, int);
static int (*get_api)(const char *, void *);
static int (*set_module)(Ctx *, const char *, int, int);
static int (*create)(Ctx *, const char *, Command *, const char *, int, int, int);
static Reply *(*call)(Ctx *, const char *, const char *, ...);
static int (*type_of)(Reply *);
static const char *(*text_of)(Reply *, size_t *);
static void (*free_reply)(Reply *);
static const char *(*bytes_of)(const Text *, size_t *);
static int (*answer)(Ctx *, const char *, size_t);
static void *(*block)(Ctx *, Command *, Command *, void (*)(Ctx *, void *), long long);
static int (*unblock)(void *, void *);
static void *(*result)(Ctx *);
static Ctx *(*thread_context)(void *);
static void (*free_context)(Ctx *);
static void (*lock)(Ctx *);
static void (*unlock)(Ctx *);

struct Work {
    void *client;
    int count;
    char words[4][64];
};

static char *perform(Ctx *ctx, struct Work *work) {
    static const char *forms[] = {"", "c", "cc", "ccc"};
    char *told = calloc(1, 512);
    Reply *reply = call(ctx, work->words[0], forms[work->count - 1], work->words[1], work->words[2], work->words[3]);
    if (!reply) {
        snprintf(told, 512, "no reply");
        return told;
    }
    size_t len = 0;
    const char *text = text_of(reply, &len);
    snprintf(told, 512, "%d %.*s", type_of(reply), text ? (int)len : 0, text ? text : "");
    free_reply(reply);
    return told;
}

static struct Work *work_of(Text **argv, int argc) {
    struct Work *work = calloc(1, sizeof *work);
    for (int at = 1; at < argc && at < 5; at++, work->count++) {
        size_t len;
        const char *bytes = bytes_of(argv[at], &len);
        snprintf(work->words[at - 1], 64, "%.*s", (int)len, bytes);
    }
    return work;
}

static int call_here(Ctx *ctx, Text **argv, int argc) {
    struct Work *work = work_of(argv, argc);
    char *told = perform(ctx, work);
    answer(ctx, told, strlen(told));
    free(told);
    free(work);
    return 0;
}

static void *run(void *arg) {
    struct Work *work = arg;
    Ctx *ctx = thread_context(work->client);
    lock(ctx);
    char *told = perform(ctx, work);
    unlock(ctx);
    free_context(ctx);
    unblock(work->client, told);
    free(work);
    return NULL;
}

static int told(Ctx *ctx, Text **argv, int argc) {
    (void)argv, (void)argc;
    char *text = result(ctx);
    return answer(ctx, text, strlen(text));
}

static void forget(Ctx *ctx, void *text) {
    (void)ctx;
    free(text);
}

static int call_there(Ctx *ctx, Text **argv, int argc) {
    struct Work *work = work_of(argv, argc);
    work->client = block(ctx, told, told, forget, 0);
    pthread_t thread;
    pthread_create(&thread, NULL, run, work);
    pthread_detach(thread);
    return 0;
}

int RedisModule_OnLoad(Ctx *ctx, Text **argv, int argc) {
    (void)argv, (void)argc;
    get_api = *(int (**)(const char *, void *))ctx;
#define GET(name, to) if (get_api("RedisModule_" name, &to)) return 1
    GET("SetModuleAttribs", set_module);
    GET("CreateCommand", create);
    GET("Call", call);
    GET("CallReplyType", type_of);
    GET("CallReplyStringPtr", text_of);
    GET("FreeCallReply", free_reply);
    GET("StringPtrLen", bytes_of);
    GET("ReplyWithStringBuffer", answer);
    GET("BlockClient", block);
    GET("UnblockClient", unblock);
    GET("GetBlockedClientPrivateData", result);
    GET("GetThreadSafeContext", thread_context);
    GET("FreeThreadSafeContext", free_context);
    GET("ThreadSafeContextLock", lock);
    GET("ThreadSafeContextUnlock", unlock);
    set_module(ctx, "other", 1, 1);
    return create(ctx, "other.call", call_here, "write", 0, 0, 0) ||
           create(ctx, "other.thread", call_there, "write", 0, 0, 0);
}
