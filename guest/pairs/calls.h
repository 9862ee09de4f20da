/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * System calls as text: read, made, and what they gave. src/bigiron/matrix/calls.py has the same, typed.
 *
 *	0 open a creat,excl -> 3	process 0; what follows the arrow is what is expected, and is skipped here
 *	A 0 open b -> 4			one of the two calls that are made on two CPUs: A on the first, B on the second
 */
#ifndef CALLS_H
#define CALLS_H

#include <stdint.h>
#include <stdio.h>

/* Fixed places for mappings, each in a page table of its own: what two of them share is the kernel's doing. */
#define SLOTS 8
#define SLOT_BYTES (2ul << 20)
#define SLOT_BASE 0x100000000000ul

#define FIRST_FD 3  /* that calls use */
#define LAST_FD 51
#define OWN_FD 60   /* from here on they are the program's: still in the table that a process begins with */
#define NAME_BYTES 16
#define WORDS 4     /* of futexes, each on a page of its own */
#define SHARED_WORDS 2 /* from here on all processes have the same */
#define MOST_READY 8
#define CALL_ERROR_BYTES 160

enum call_kind {
	CALL_OPEN, CALL_LINK, CALL_UNLINK, CALL_RENAME, CALL_STAT, CALL_FSTAT, CALL_LSEEK, CALL_CLOSE, CALL_PIPE,
	CALL_READ, CALL_WRITE, CALL_PREAD, CALL_PWRITE, CALL_MMAP, CALL_MUNMAP, CALL_MPROTECT, CALL_MEMREAD,
	CALL_MEMWRITE,
	/* Those of other families. A fork's child has exited when the fork returns; who waits for a futex gives up at once. */
	CALL_GETPID, CALL_GETPPID, CALL_FUTEX_WAIT, CALL_FUTEX_WAKE, CALL_EPOLL_CREATE, CALL_EPOLL_CTL, CALL_EPOLL_WAIT,
	CALL_SOCKET, CALL_BIND, CALL_SENDTO, CALL_RECVFROM, CALL_FORK, CALL_WAIT,
	/* To set up only: dup2(), the same of the other process's descriptor, and a store to a futex's word. */
	CALL_DUP, CALL_RECEIVE, CALL_STORE,
};

enum call_role { ROLE_SET_UP, ROLE_A, ROLE_B };

struct call {
	enum call_kind kind;
	enum call_role role;
	int process;
	char names[2][NAME_BYTES];
	int fd;
	int to;		/* which descriptor is to be the same file, and what it was is closed; or epoll_ctl() is about */
	int adds;	/* epoll_ctl() */
	int word;	/* of a futex */
	int salt;	/* of a socket's address: of another one the kernel hashes all addresses to other places */
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

/* Processes have other numbers each time. */
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

/* From a line, which it takes apart. Returns 0, or 1 with what is wrong with it in `error`. */
int call_read(struct call *call, char *line, char error[CALL_ERROR_BYTES]);

/*
 * By who starts the processes that make calls: those that it starts from now on share words and sockets' addresses,
 * and no others do. Returns 0, or -1 with errno.
 */
int calls_share(void);
/* By each thread that makes calls, before the first. */
void calls_prepare(void);
void call_make(const struct call *call, struct result *result);
/* The two halves of CALL_RECEIVE, by the process that has the file and the one that is to have it too. Return 0, or -1 with errno. */
int send_fd(int socket, int fd);
int receive_fd(int socket, int to);
/* Whatever calls have opened, mapped, stored and forked. */
void calls_undo(void);

/* Inodes are numbered in the order in which results are printed, as i1, i2, ... */
struct inodes {
	unsigned int known;
	struct {
		uint64_t device, inode;
	} of[64];
};

void result_print(const struct call *call, const struct result *result, struct inodes *inodes, FILE *text);

#endif
