// What NetTransport needs of Linux and Swift's Glibc module does not show. No logic lives here.
#ifndef CLINUXSHIMS_H
#define CLINUXSHIMS_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/un.h>

#endif
