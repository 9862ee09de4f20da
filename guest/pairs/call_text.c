// SPDX-License-Identifier: GPL-2.0-or-later
#define _GNU_SOURCE
#include "call_text.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/*
 * The arguments that follow a call's name: n a name, f a descriptor, t another descriptor, o an offset, v a value, s a slot,
 * p r or rw, F flags of open, m what to map, a add or del, w a word.
 */
static const struct {
	const char *name, *arguments;
} calls[] = {
	[CALL_OPEN] = { "open", "nF" },	       [CALL_LINK] = { "link", "nn" },
	[CALL_UNLINK] = { "unlink", "n" },     [CALL_RENAME] = { "rename", "nn" },
	[CALL_STAT] = { "stat", "n" },	       [CALL_FSTAT] = { "fstat", "f" },
	[CALL_LSEEK] = { "lseek", "fo" },      [CALL_CLOSE] = { "close", "f" },
	[CALL_PIPE] = { "pipe", "" },	       [CALL_READ] = { "read", "f" },
	[CALL_WRITE] = { "write", "fv" },      [CALL_PREAD] = { "pread", "fo" },
	[CALL_PWRITE] = { "pwrite", "fov" },   [CALL_MMAP] = { "mmap", "spm" },
	[CALL_MUNMAP] = { "munmap", "s" },     [CALL_MPROTECT] = { "mprotect", "sp" },
	[CALL_MEMREAD] = { "memread", "s" },   [CALL_MEMWRITE] = { "memwrite", "sv" },
	[CALL_GETPID] = { "getpid", "" },      [CALL_GETPPID] = { "getppid", "" },
	[CALL_FUTEX_WAIT] = { "futex_wait", "wv" }, [CALL_FUTEX_WAKE] = { "futex_wake", "w" },
	[CALL_EPOLL_CREATE] = { "epoll_create", "" }, [CALL_EPOLL_CTL] = { "epoll_ctl", "fat" },
	[CALL_EPOLL_WAIT] = { "epoll_wait", "f" }, [CALL_SOCKET] = { "socket", "" },
	[CALL_BIND] = { "bind", "fn" },	       [CALL_SENDTO] = { "sendto", "fnv" },
	[CALL_RECVFROM] = { "recvfrom", "f" }, [CALL_FORK] = { "fork", "" },
	[CALL_WAIT] = { "wait", "" },
	[CALL_DUP] = { "dup", "ft" },	       [CALL_RECEIVE] = { "receive", "ft" },
	[CALL_STORE] = { "store", "wv" },
};

#define NR_CALLS (sizeof(calls) / sizeof(*calls))

static int number(const char *word, long least, long most, long *value)
{
	char *end;

	errno = 0;
	*value = word ? strtol(word, &end, 10) : 0;
	return !word || !isdigit((unsigned char)word[*word == '-']) || *end || errno || *value < least || *value > most;
}

static int read_name(char name[NAME_BYTES], const char *word)
{
	size_t length = word ? strlen(word) : 0;

	if (!length || length >= NAME_BYTES)
		return 1;
	for (size_t i = 0; i < length; i++)
		if (!isalnum((unsigned char)word[i]))
			return 1;
	memcpy(name, word, length + 1);
	return 0;
}

/* "creat,excl,trunc", or any of them, or nothing. */
static int read_flags(int *flags, char *word)
{
	char *rest = NULL;

	for (char *flag = word ? strtok_r(word, ",", &rest) : NULL; flag; flag = strtok_r(NULL, ",", &rest)) {
		if (!strcmp(flag, "creat"))
			*flags |= O_CREAT;
		else if (!strcmp(flag, "excl"))
			*flags |= O_EXCL;
		else if (!strcmp(flag, "trunc"))
			*flags |= O_TRUNC;
		else
			return 1;
	}
	return 0;
}

static int read_writable(int *writable, const char *word)
{
	*writable = word && !strcmp(word, "rw");
	return !word || (!*writable && strcmp(word, "r"));
}

static char *next_word(char **rest)
{
	return strtok_r(NULL, " ", rest);
}

static int read_fd(int *fd, const char *word)
{
	long value;

	if (number(word, FIRST_FD, LAST_FD, &value))
		return 1;
	*fd = value;
	return 0;
}

static int read_argument(struct call *call, char kind, int nr_names, char *word, char **rest)
{
	long value = 0;
	int failed = 0;

	switch (kind) {
	case 'n':
		return read_name(call->names[nr_names], word);
	case 'F':
		return read_flags(&call->flags, word);
	case 'p':
		return read_writable(&call->writable, word);
	case 'f':
		return read_fd(&call->fd, word);
	case 't':
		return read_fd(&call->to, word);
	case 'o':
		return number(word, -1000000, 1000000, &call->offset);
	case 'v':
		failed = number(word, 0, 255, &value);
		call->value = value;
		return failed;
	case 's':
		failed = number(word, 0, SLOTS - 1, &value);
		call->slot = value;
		return failed;
	case 'a':
		call->adds = word && !strcmp(word, "add");
		return !word || (!call->adds && strcmp(word, "del"));
	case 'w':
		failed = number(word, 0, WORDS - 1, &value);
		call->word = value;
		return failed;
	case 'm':
		call->anonymous = word && !strcmp(word, "anon");
		return !call->anonymous && (read_fd(&call->fd, word) || number(next_word(rest), 0, 1000000, &call->offset));
	}
	return 1;
}

static int kind_of(const char *word)
{
	for (size_t kind = 0; word && kind < NR_CALLS; kind++)
		if (!strcmp(calls[kind].name, word))
			return kind;
	return -1;
}

int call_read(struct call *call, char *line, char error[CALL_ERROR_BYTES])
{
	char *rest = NULL, *word = strtok_r(line, " ", &rest);
	int kind, nr_names = 0;

	*call = (struct call){ 0 };
	if (word && (!strcmp(word, "A") || !strcmp(word, "B"))) {
		call->role = *word == 'A' ? ROLE_A : ROLE_B;
		word = next_word(&rest);
	}
	if (!word || (strcmp(word, "0") && strcmp(word, "1"))) {
		snprintf(error, CALL_ERROR_BYTES, "a call begins with its process, 0 or 1, not with %s",
			 word ? word : "nothing");
		return 1;
	}
	call->process = *word - '0';
	word = next_word(&rest);
	kind = kind_of(word);
	if (kind < 0) {
		snprintf(error, CALL_ERROR_BYTES, "%s is no call", word ? word : "nothing");
		return 1;
	}
	call->kind = kind;
	for (const char *each = calls[kind].arguments; *each; each++) {
		if (read_argument(call, *each, nr_names, next_word(&rest), &rest)) {
			snprintf(error, CALL_ERROR_BYTES, "what follows %s is not what it takes", calls[kind].name);
			return 1;
		}
		nr_names += *each == 'n';
	}
	if (next_word(&rest)) {
		snprintf(error, CALL_ERROR_BYTES, "more follows %s than it takes", calls[kind].name);
		return 1;
	}
	return 0;
}

static unsigned int inode_number(struct inodes *inodes, const struct result *result)
{
	unsigned int nr = 0;

	while (nr < inodes->known &&
	       (inodes->of[nr].device != result->stat.device || inodes->of[nr].inode != result->stat.inode))
		nr++;
	if (nr == inodes->known && nr < sizeof(inodes->of) / sizeof(*inodes->of)) {
		inodes->of[nr].device = result->stat.device;
		inodes->of[nr].inode = result->stat.inode;
		inodes->known++;
	}
	return nr + 1;
}

static void print_stat(const struct result *result, struct inodes *inodes, FILE *text)
{
	const char *type = S_ISREG(result->stat.mode) ? "file" : S_ISFIFO(result->stat.mode) ? "pipe" : "other";

	fprintf(text, "%s %lu ", type, (unsigned long)result->stat.links);
	if (result->stat.bytes % getpagesize())
		fprintf(text, "%lu-bytes", (unsigned long)result->stat.bytes);
	else
		fprintf(text, "%lu", (unsigned long)(result->stat.bytes / getpagesize()));
	fprintf(text, " i%u", inode_number(inodes, result));
}

static void print_error(int error, FILE *text)
{
	const char *name = strerrorname_np(error);

	if (name)
		fprintf(text, "-%s", name);
	else
		fprintf(text, "-%d", error);
}

static void print_ready(const struct result *result, FILE *text)
{
	fputs(result->value ? "ready" : "none", text);
	for (int i = 0; i < result->value; i++)
		fprintf(text, " %d", result->ready[i]);
}

void result_print(const struct call *call, const struct result *result, struct inodes *inodes, FILE *text)
{
	static const char roles[] = { [ROLE_A] = 'A', [ROLE_B] = 'B' };
	static const char *const relatives[] = {
		[SELF] = "self", [PARENT] = "parent", [CHILD] = "child", [STRANGER] = "stranger",
	};

	if (call->role != ROLE_SET_UP)
		fprintf(text, "%c ", roles[call->role]);
	switch (result->kind) {
	case RESULT_NUMBER:
		fprintf(text, "%ld", result->value);
		break;
	case RESULT_ERROR:
		print_error(result->value, text);
		break;
	case RESULT_PIPE:
		fprintf(text, "%ld %ld", result->value, result->other);
		break;
	case RESULT_PAGE:
		fprintf(text, "page %ld", result->value);
		break;
	case RESULT_BYTE:
		fprintf(text, "byte %ld", result->value);
		break;
	case RESULT_STAT:
		print_stat(result, inodes, text);
		break;
	case RESULT_SIGNAL:
		fputs(result->value == SIGBUS ? "SIGBUS" : "SIGSEGV", text);
		break;
	case RESULT_READY:
		print_ready(result, text);
		break;
	case RESULT_PROCESS:
		fputs(relatives[result->value], text);
		break;
	}
	fputc('\n', text);
}
