// SPDX-License-Identifier: GPL-2.0-or-later
#define _GNU_SOURCE
#include "calls.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <setjmp.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

/* Of each thread: what read() and write() transfer. */
static __thread char *page;
static __thread sigjmp_buf after_fault;
static __thread volatile sig_atomic_t may_fault;

#define WORD_BYTES 4096

static char own_words[SHARED_WORDS][WORD_BYTES] __attribute__((aligned(WORD_BYTES)));
static struct {
	char words[WORDS - SHARED_WORDS][WORD_BYTES];
	char addresses[32]; /* the prefix of sockets' addresses: unique on this machine */
} *shared;
static pid_t self, parent;

static void *address_of(int slot)
{
	return (void *)(SLOT_BASE + slot * SLOT_BYTES);
}

static void faulted(int signal)
{
	if (may_fault)
		siglongjmp(after_fault, signal);
	sigaction(signal, &(struct sigaction){ .sa_handler = SIG_DFL }, NULL);
	raise(signal);
}

/* Keep a page mapped in each slot's page table, so that the table stays. */
static void keep_page_tables(void)
{
	for (int slot = 0; slot < SLOTS; slot++) {
		char *kept = mmap((char *)address_of(slot) + SLOT_BYTES / 2, getpagesize(), PROT_READ | PROT_WRITE,
				  MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);

		if (kept != MAP_FAILED)
			*kept = 1;
	}
}

static uint32_t *word_at(int word)
{
	return (uint32_t *)(word < SHARED_WORDS ? own_words[word] : shared->words[word - SHARED_WORDS]);
}

/* Their pages are mapped from now on. */
static void clear_words(void)
{
	for (int word = 0; word < WORDS; word++)
		__atomic_store_n(word_at(word), 0, __ATOMIC_RELAXED);
}

int calls_share(void)
{
	static int nr;

	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
	if (shared == MAP_FAILED)
		return -1;
	snprintf(shared->addresses, sizeof(shared->addresses), "bigiron.%d.%d.", getpid(), nr++);
	return 0;
}

void calls_prepare(void)
{
	const struct sigaction act = { .sa_handler = faulted, .sa_flags = SA_NODEFER };

	page = mmap(NULL, getpagesize(), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
	if (page == MAP_FAILED)
		abort();
	sigaction(SIGSEGV, &act, NULL);
	sigaction(SIGBUS, &act, NULL);
	signal(SIGPIPE, SIG_IGN);
	self = getpid();
	parent = getppid();
	clear_words();
	keep_page_tables();
}

static struct result number_or_error(long value)
{
	return value < 0 ? (struct result){ .kind = RESULT_ERROR, .value = errno } :
			   (struct result){ .kind = RESULT_NUMBER, .value = value };
}

/* A whole number of pages counts in pages. */
static struct result pages(long bytes)
{
	return number_or_error(bytes < 0 || bytes % getpagesize() ? bytes : bytes / getpagesize());
}

static struct result page_read(long bytes)
{
	if (bytes == getpagesize())
		return (struct result){ .kind = RESULT_PAGE, .value = (unsigned char)*page };
	return number_or_error(bytes);
}

static struct result looked_at(int failed, const struct stat *stat)
{
	if (failed)
		return number_or_error(-1);
	return (struct result){
		.kind = RESULT_STAT,
		.stat = { stat->st_dev, stat->st_ino, stat->st_nlink, stat->st_size, stat->st_mode },
	};
}

static struct result make_pipe(void)
{
	int ends[2];

	if (pipe2(ends, O_NONBLOCK))
		return number_or_error(-1);
	return (struct result){ .kind = RESULT_PIPE, .value = ends[0], .other = ends[1] };
}

static struct result map(const struct call *call)
{
	void *mapped = mmap(address_of(call->slot), getpagesize(), PROT_READ | (call->writable ? PROT_WRITE : 0),
			    MAP_FIXED | (call->anonymous ? MAP_PRIVATE | MAP_ANONYMOUS : MAP_SHARED),
			    call->anonymous ? -1 : call->fd, call->anonymous ? 0 : call->offset * getpagesize());

	return number_or_error(mapped == MAP_FAILED ? -1 : 0);
}

static struct result touch(const struct call *call)
{
	volatile unsigned char *byte = address_of(call->slot);
	int signal = sigsetjmp(after_fault, 0);
	struct result result = { .kind = RESULT_SIGNAL, .value = signal };

	may_fault = !signal;
	if (signal)
		return result;
	if (call->kind == CALL_MEMREAD)
		result = (struct result){ .kind = RESULT_BYTE, .value = *byte };
	else
		*byte = call->value, result = (struct result){ .kind = RESULT_NUMBER };
	may_fault = 0;
	return result;
}

static struct result relative(pid_t pid)
{
	return (struct result){
		.kind = RESULT_PROCESS,
		.value = pid == self ? SELF : pid == parent ? PARENT : STRANGER,
	};
}

static struct result child(long pid)
{
	return pid < 0 ? number_or_error(pid) : (struct result){ .kind = RESULT_PROCESS, .value = CHILD };
}

/* Returns when the child has exited: until then, its descriptors are open twice. The child is not reaped yet. */
static struct result fork_and_exit(void)
{
	long pid = syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);

	if (!pid)
		syscall(SYS_exit_group, 0);
	if (pid > 0 && syscall(SYS_waitid, P_PID, pid, NULL, WEXITED | WNOWAIT, NULL))
		return number_or_error(-1);
	return child(pid);
}

static struct result futex(const struct call *call, int operation)
{
	const struct timespec now = { 0 };

	if (call->word < SHARED_WORDS)
		operation |= FUTEX_PRIVATE_FLAG;
	return number_or_error(syscall(SYS_futex, word_at(call->word), operation, call->value, &now, NULL, 0));
}

static struct result control(const struct call *call)
{
	struct epoll_event event = { .events = EPOLLIN, .data.fd = call->to };

	return number_or_error(epoll_ctl(call->fd, call->adds ? EPOLL_CTL_ADD : EPOLL_CTL_DEL, call->to, &event));
}

static int by_number(const void *x, const void *y)
{
	return *(const int *)x - *(const int *)y;
}

static struct result wait_for_events(int fd)
{
	struct epoll_event events[MOST_READY];
	struct result result = { .kind = RESULT_READY, .value = epoll_wait(fd, events, MOST_READY, 0) };

	if (result.value < 0)
		return number_or_error(-1);
	for (int i = 0; i < result.value; i++)
		result.ready[i] = events[i].data.fd;
	qsort(result.ready, result.value, sizeof(*result.ready), by_number);
	return result;
}

/* FNV-1a */
static uint32_t scrambled(const char *name, int salt)
{
	uint32_t hash = (2166136261u ^ salt) * 16777619u;

	for (; *name; name++)
		hash = (hash ^ (unsigned char)*name) * 16777619u;
	return hash;
}

/*
 * An abstract address: it goes with the socket, and is no file. The kernel hashes it by a sum, so names that differ in one
 * letter get adjacent places. The suffix spreads them.
 */
static socklen_t address_of_name(struct sockaddr_un *address, const char *name, int salt)
{
	*address = (struct sockaddr_un){ .sun_family = AF_UNIX };
	return offsetof(struct sockaddr_un, sun_path) + 1 +
	       snprintf(address->sun_path + 1, sizeof(address->sun_path) - 1, "%s%s.%08x",
			shared->addresses, name, scrambled(name, salt));
}

static struct result make_on_socket(const struct call *call)
{
	unsigned char byte = call->value;
	struct sockaddr_un address;
	socklen_t length = address_of_name(&address, call->names[0], call->salt);

	switch (call->kind) {
	case CALL_BIND:
		return number_or_error(bind(call->fd, (struct sockaddr *)&address, length));
	case CALL_SENDTO:
		return number_or_error(sendto(call->fd, &byte, 1, 0, (struct sockaddr *)&address, length));
	default:
		if (recvfrom(call->fd, &byte, 1, 0, NULL, NULL) < 0)
			return number_or_error(-1);
		return (struct result){ .kind = RESULT_BYTE, .value = byte };
	}
}

static struct result make_by_name(const struct call *call)
{
	const char *name = call->names[0];
	struct stat stat_of;

	switch (call->kind) {
	case CALL_OPEN:
		return number_or_error(open(name, O_RDWR | call->flags, 0600));
	case CALL_LINK:
		return number_or_error(link(name, call->names[1]));
	case CALL_UNLINK:
		return number_or_error(unlink(name));
	case CALL_RENAME:
		return number_or_error(rename(name, call->names[1]));
	default:
		return looked_at(stat(name, &stat_of), &stat_of);
	}
}

static struct result make_on_file(const struct call *call)
{
	struct stat stat_of;

	switch (call->kind) {
	case CALL_FSTAT:
		return looked_at(fstat(call->fd, &stat_of), &stat_of);
	case CALL_LSEEK:
		return pages(lseek(call->fd, call->offset * getpagesize(), SEEK_SET));
	case CALL_CLOSE:
		return number_or_error(close(call->fd));
	case CALL_DUP:
		return number_or_error(dup2(call->fd, call->to));
	case CALL_READ:
		return page_read(read(call->fd, page, getpagesize()));
	case CALL_WRITE:
		memset(page, call->value, getpagesize());
		return pages(write(call->fd, page, getpagesize()));
	case CALL_PREAD:
		return page_read(pread(call->fd, page, getpagesize(), call->offset * getpagesize()));
	default:
		memset(page, call->value, getpagesize());
		return pages(pwrite(call->fd, page, getpagesize(), call->offset * getpagesize()));
	}
}

static struct result make_in_memory(const struct call *call)
{
	switch (call->kind) {
	case CALL_MMAP:
		return map(call);
	case CALL_MUNMAP:
		return number_or_error(munmap(address_of(call->slot), getpagesize()));
	case CALL_MPROTECT:
		return number_or_error(mprotect(address_of(call->slot), getpagesize(),
						PROT_READ | (call->writable ? PROT_WRITE : 0)));
	default:
		return touch(call);
	}
}

/* A call of one of the other families. */
static struct result make_other(const struct call *call)
{
	switch (call->kind) {
	case CALL_PIPE:
		return make_pipe();
	case CALL_GETPID:
		return relative(syscall(SYS_getpid));
	case CALL_GETPPID:
		return relative(syscall(SYS_getppid));
	case CALL_FUTEX_WAIT:
		return futex(call, FUTEX_WAIT);
	case CALL_FUTEX_WAKE:
		return futex(call, FUTEX_WAKE);
	case CALL_EPOLL_CREATE:
		return number_or_error(epoll_create1(0));
	case CALL_EPOLL_CTL:
		return control(call);
	case CALL_EPOLL_WAIT:
		return wait_for_events(call->fd);
	case CALL_SOCKET:
		return number_or_error(socket(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK, 0));
	case CALL_FORK:
		return fork_and_exit();
	case CALL_WAIT:
		return child(syscall(SYS_wait4, -1, NULL, 0, NULL));
	case CALL_STORE:
		__atomic_store_n(word_at(call->word), call->value, __ATOMIC_RELAXED);
		return number_or_error(0);
	default:
		return number_or_error(-1); /* CALL_RECEIVE takes two processes: workers.c */
	}
}

static struct result make(const struct call *call)
{
	switch (call->kind) {
	case CALL_OPEN:
	case CALL_LINK:
	case CALL_UNLINK:
	case CALL_RENAME:
	case CALL_STAT:
		return make_by_name(call);
	case CALL_FSTAT:
	case CALL_LSEEK:
	case CALL_CLOSE:
	case CALL_DUP:
	case CALL_READ:
	case CALL_WRITE:
	case CALL_PREAD:
	case CALL_PWRITE:
		return make_on_file(call);
	case CALL_MMAP:
	case CALL_MUNMAP:
	case CALL_MPROTECT:
	case CALL_MEMREAD:
	case CALL_MEMWRITE:
		return make_in_memory(call);
	case CALL_BIND:
	case CALL_SENDTO:
	case CALL_RECVFROM:
		return make_on_socket(call);
	default:
		return make_other(call);
	}
}

void call_make(const struct call *call, struct result *result)
{
	*result = make(call);
}

union rights {
	char bytes[CMSG_SPACE(sizeof(int))];
	struct cmsghdr header;
};

int send_fd(int socket, int fd)
{
	union rights rights = { 0 };
	struct iovec nothing = { (char[]){ 0 }, 1 };
	struct msghdr message = {
		.msg_iov = &nothing, .msg_iovlen = 1, .msg_control = rights.bytes, .msg_controllen = sizeof(rights.bytes),
	};
	struct cmsghdr *header = CMSG_FIRSTHDR(&message);

	header->cmsg_level = SOL_SOCKET;
	header->cmsg_type = SCM_RIGHTS;
	header->cmsg_len = CMSG_LEN(sizeof(int));
	memcpy(CMSG_DATA(header), &fd, sizeof(int));
	return sendmsg(socket, &message, 0) == 1 ? 0 : -1;
}

int receive_fd(int socket, int to)
{
	union rights rights;
	char byte;
	struct iovec nothing = { &byte, 1 };
	struct msghdr message = {
		.msg_iov = &nothing, .msg_iovlen = 1, .msg_control = rights.bytes, .msg_controllen = sizeof(rights.bytes),
	};
	struct cmsghdr *header;
	int fd;

	if (recvmsg(socket, &message, MSG_DONTWAIT) != 1)
		return -1;
	header = CMSG_FIRSTHDR(&message);
	if (!header || header->cmsg_type != SCM_RIGHTS) {
		errno = EPROTO;
		return -1;
	}
	memcpy(&fd, CMSG_DATA(header), sizeof(int));
	if (fd == to)
		return 0;
	return dup2(fd, to) < 0 ? -1 : close(fd);
}

void calls_undo(void)
{
	syscall(SYS_close_range, FIRST_FD, OWN_FD - 1, 0);
	for (int slot = 0; slot < SLOTS; slot++)
		munmap(address_of(slot), getpagesize());
	clear_words();
	while (wait(NULL) > 0)
		;
}
