/* A server that does nothing: it answers each request of redis-benchmark at once and without reading it, so that
   .ci/server-cells --echo shows what its client and the kernel leave to any server. Usage: echo PORT */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

enum { EVENTS = 256, BYTES = 1 << 16 };
static const char REPLY[] = "+OK\r\n";
static char in[BYTES], out[BYTES * 5];

static void check(int ok, const char *what) {
    if (!ok) {
        perror(what);
        exit(1);
    }
}

static void watch(int epoll, int fd) {
    struct epoll_event event = {.events = EPOLLIN, .data.fd = fd};
    check(epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event) == 0, "epoll_ctl");
}

/* Requests begin with an asterisk, and have no other one. */
static void answer(int fd) {
    ssize_t got = recv(fd, in, sizeof in, 0);
    if (got <= 0) {
        close(fd);
        return;
    }
    size_t len = 0;
    for (ssize_t at = 0; at < got; at++) {
        if (in[at] == '*') {
            memcpy(out + len, REPLY, sizeof REPLY - 1);
            len += sizeof REPLY - 1;
        }
    }
    if (len > 0 && send(fd, out, len, MSG_NOSIGNAL) != (ssize_t)len)
        close(fd);
}

int main(int count, char **args) {
    int listener = socket(AF_INET, SOCK_STREAM, 0), one = 1, epoll = epoll_create1(0);
    struct sockaddr_in here = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    check(count == 2 && listener >= 0 && epoll >= 0, "usage: echo PORT");
    here.sin_port = htons((unsigned short)atoi(args[1]));
    setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    check(bind(listener, (struct sockaddr *)&here, sizeof here) == 0, "bind");
    check(listen(listener, EVENTS) == 0, "listen");
    watch(epoll, listener);
    for (;;) {
        struct epoll_event events[EVENTS];
        int ready = epoll_wait(epoll, events, EVENTS, -1);
        for (int each = 0; each < ready; each++) {
            int fd = events[each].data.fd;
            if (fd != listener) {
                answer(fd);
            } else if ((fd = accept(listener, NULL, NULL)) >= 0) {
                setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
                watch(epoll, fd);
            }
        }
    }
}
