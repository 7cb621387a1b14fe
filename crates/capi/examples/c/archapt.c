/*
 * Words that are kept, with the API of the Archapt paper (Table II).
 *
 *     archapt PATH [WORD...]
 *
 * Words are committed logically one by one, and are all durable when the last transaction ends.
 */
#include <perdura.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { KIND = PERDURA_FIRST_KIND + 1 };

typedef struct {
    perdura_offset previous, word;
    uint64_t length;
} entry;

static void check(int code, const char *doing) {
    if (code != PERDURA_OK) {
        fprintf(stderr, "%s: %s\n", doing, perdura_last_error());
        exit(1);
    }
}

/* Puts a word before those that are there, in the transaction that is open. */
static void put(const char *word) {
    perdura_session session = Archapt_Session();
    entry new = {.length = strlen(word)};

    check(perdura_root_get(session, "words", &new.previous, NULL), "looking for the words");
    new.word = Archapt_Malloc(ARCHAPT_KEY, new.length);
    perdura_write_fresh(session, new.word, word, new.length);
    perdura_offset at = Archapt_Malloc(ARCHAPT_FIELD_VALUE, sizeof new);
    perdura_write_fresh(session, at, &new, sizeof new);
    perdura_root_set(session, "words", at, KIND);
}

/* Takes the words that are there away, telling them. */
static void take_all(void) {
    perdura_session session = Archapt_Session();
    perdura_offset at;
    entry old;

    check(perdura_root_get(session, "words", &at, NULL), "looking for the words");
    printf("found:");
    for (; at != 0; at = old.previous) {
        char word[64] = "";
        check(perdura_read(session, at, &old, sizeof old), "reading an entry");
        size_t fits = old.length < sizeof word ? old.length : sizeof word - 1;
        check(perdura_read(session, old.word, word, fits), "reading a word");
        printf(" %s", word);
        Archapt_Free(ARCHAPT_KEY, old.word);
        Archapt_Free(ARCHAPT_FIELD_VALUE, at);
    }
    printf("\n");
    perdura_root_set(session, "words", 0, KIND);
}

int main(int count, char **arguments) {
    perdura_options options;
    perdura_ticket ticket = 0;

    if (count < 2) {
        fprintf(stderr, "usage: %s PATH [WORD...]\n", arguments[0]);
        return 2;
    }
    check(perdura_options_init(&options, sizeof options), "options");
    options.size = 16 << 20;
    check(Archapt_Init(arguments[1], &options), "opening the pool");

    Archapt_Tx_Start();
    take_all();
    check(Archapt_Tx_LCommit(&ticket), "taking the words");
    for (int i = 2; i < count; i++) {
        Archapt_Tx_Start();
        put(arguments[i]);
        check(Archapt_Tx_LCommit(&ticket), "a word");
    }
    check(Archapt_Tx_End(), "making the words durable");

    int durable;
    check(perdura_is_durable(Archapt_Session(), ticket, &durable), "asking");
    printf("kept %d words, %s\n", count - 2, durable ? "durable" : "not durable");
    check(Archapt_Exit(), "closing the pool");
    return 0;
}
