/* SPDX-License-Identifier: GPL-2.0-or-later */
/* System calls and their results. src/bigiron/matrix/calls.py has the same in Python. */
#ifndef CALLS_H
#define CALLS_H

#include <stdint.h>

/* Fixed addresses for mappings, each in a page table of its own: what two mappings share, the kernel makes them share. */
#define SLOTS 8
#define SLOT_BYTES (2ul << 20)
#define SLOT_BASE 0x100000000000ul

#define FIRST_FD 3  /* that calls use */
#define LAST_FD 51
#define OWN_FD 60   /* the program's own begin here: still in the table that a process begins with */
#define NAME_BYTES 16
#define WORDS 4     /* of futexes, each on a page of its own */
#define SHARED_WORDS 2 /* from this one on, all processes share them */
#define MOST_READY 8

enum call_kind {
	CALL_OPEN, CALL_LINK, CALL_UNLINK, CALL_RENAME, CALL_STAT, CALL_FSTAT, CALL_LSEEK, CALL_CLOSE, CALL_PIPE,
	CALL_READ, CALL_WRITE, CALL_PREAD, CALL_PWRITE, CALL_MMAP, CALL_MUNMAP, CALL_MPROTECT, CALL_MEMREAD,
	CALL_MEMWRITE,
	/* Other families. A fork's child has exited when the fork returns. A wait for a futex times out at once. */
	CALL_GETPID, CALL_GETPPID, CALL_FUTEX_WAIT, CALL_FUTEX_WAKE, CALL_EPOLL_CREATE, CALL_EPOLL_CTL, CALL_EPOLL_WAIT,
	CALL_SOCKET, CALL_BIND, CALL_SENDTO, CALL_RECVFROM, CALL_FORK, CALL_WAIT,
	/* To set up only: dup2(), a copy of the other process's descriptor, a store to a futex's word. */
	CALL_DUP, CALL_RECEIVE, CALL_STORE,
};

enum call_role { ROLE_SET_UP, ROLE_A, ROLE_B };

struct call {
	enum call_kind kind;
	enum call_role role;
	int process;
	char names[2][NAME_BYTES];
	int fd;
	int to;		/* of dup2() and CALL_RECEIVE: the new descriptor; of epoll_ctl(): its subject */
	int adds;	/* epoll_ctl() */
	int word;	/* of a futex */
	int salt;	/* of a socket's address: with another one, the kernel hashes all addresses to other places */
	int flags;	/* of open() */
	long offset;	/* in pages */
	int value;	/* of each byte that is written */
	int slot;
	int writable;	/* a mapping */
	int anonymous;
};

enum result_kind {
	RESULT_NUMBER, RESULT_ERROR, RESULT_PIPE, RESULT_PAGE, RESULT_BYTE, RESULT_STAT, RESULT_SIGNAL, RESULT_READY,
	RESULT_PROCESS,
};

/* A process as the caller sees it: numbers differ each time. */
enum relative { SELF, PARENT, CHILD, STRANGER };

struct result {
	enum result_kind kind;
	long value; /* or the error, the byte, the signal, which relative, how many are ready */
	long other; /* a pipe's end to write */
	struct {
		uint64_t device, inode;
		uint64_t links, bytes;
		unsigned int mode;
	} stat;
	int ready[MOST_READY]; /* descriptors, in order */
};

/*
 * Before the processes that make calls are forked: they share words and sockets' addresses, but not with processes that
 * were forked before. Returns 0, or -1 with errno.
 */
int calls_share(void);
/* By each thread that makes calls, before the first. */
void calls_prepare(void);
void call_make(const struct call *call, struct result *result);
/* The two halves of CALL_RECEIVE, by the process that has the file and the one that gets it. Return 0, or -1 with errno. */
int send_fd(int socket, int fd);
int receive_fd(int socket, int to);
/* Undo what calls have opened, mapped, stored and forked. */
void calls_undo(void);

#endif
