// SPDX-License-Identifier: GPL-2.0-or-later
#define _GNU_SOURCE
#include "calls.h"
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define BASE 0x20000000ul
static __thread sigjmp_buf back;
static __thread volatile int caught;
static __thread char buffer[4096];

static void on_signal(int s) { caught = s; siglongjmp(back, 1); }

void call_prepare(void)
{
	struct sigaction sa = { .sa_handler = on_signal, .sa_flags = SA_NODEFER };
	sigaction(SIGSEGV, &sa, NULL);
	sigaction(SIGBUS, &sa, NULL);
	memset(buffer, 1, sizeof(buffer));
}

void calls_undo(void)
{
	for (int fd = 3; fd < 12; fd++) close(fd);
	munmap((void *)BASE, 16 * 4096);
	for (char c = 'a'; c < 'h'; c++) { char n[2] = { c, 0 }; unlink(n); }
}

void call_make(const struct call *call, char result[CALL_TEXT_BYTES])
{
	char w[6][32] = { { 0 } };
	int n = sscanf(call->text, "%31s %31s %31s %31s %31s %31s", w[0], w[1], w[2], w[3], w[4], w[5]);
	long r = -1; struct stat st; int p[2];
	(void)n;
	caught = 0;
	if (sigsetjmp(back, 0)) { strcpy(result, caught == SIGBUS ? "SIGBUS" : "SIGSEGV"); return; }
	if (!strcmp(w[0], "open")) {
		int flags = O_RDWR;
		if (strstr(w[2], "creat")) flags |= O_CREAT;
		if (strstr(w[2], "excl")) flags |= O_EXCL;
		if (strstr(w[2], "trunc")) flags |= O_TRUNC;
		r = syscall(SYS_openat, AT_FDCWD, w[1], flags, 0644);
	} else if (!strcmp(w[0], "link")) r = link(w[1], w[2]);
	else if (!strcmp(w[0], "unlink")) r = unlink(w[1]);
	else if (!strcmp(w[0], "rename")) r = rename(w[1], w[2]);
	else if (!strcmp(w[0], "stat")) r = stat(w[1], &st);
	else if (!strcmp(w[0], "fstat")) r = fstat(atoi(w[1]), &st);
	else if (!strcmp(w[0], "lseek")) r = lseek(atoi(w[1]), atoi(w[2]) * 4096, SEEK_SET);
	else if (!strcmp(w[0], "close")) r = close(atoi(w[1]));
	else if (!strcmp(w[0], "pipe")) r = pipe(p);
	else if (!strcmp(w[0], "read")) r = read(atoi(w[1]), buffer, 4096);
	else if (!strcmp(w[0], "write")) r = write(atoi(w[1]), buffer, 4096);
	else if (!strcmp(w[0], "pread")) r = pread(atoi(w[1]), buffer, 4096, atoi(w[2]) * 4096);
	else if (!strcmp(w[0], "pwrite")) r = pwrite(atoi(w[1]), buffer, 4096, atoi(w[2]) * 4096);
	else if (!strcmp(w[0], "mmap")) {
		void *a = (void *)(BASE + atoi(w[1]) * 4096ul);
		int prot = PROT_READ | (!strcmp(w[2], "w") ? PROT_WRITE : 0);
		r = !strcmp(w[3], "anon") ? (mmap(a, 4096, prot, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == a ? 0 : -1)
					  : (mmap(a, 4096, prot, MAP_SHARED | MAP_FIXED, atoi(w[3]), atoi(w[4]) * 4096ul) == a ? 0 : -1);
	} else if (!strcmp(w[0], "munmap")) r = munmap((void *)(BASE + atoi(w[1]) * 4096ul), 4096);
	else if (!strcmp(w[0], "mprotect")) r = mprotect((void *)(BASE + atoi(w[1]) * 4096ul), 4096, PROT_READ | (!strcmp(w[2], "w") ? PROT_WRITE : 0));
	else if (!strcmp(w[0], "memread")) r = *(volatile char *)(BASE + atoi(w[1]) * 4096ul);
	else if (!strcmp(w[0], "memwrite")) { *(volatile char *)(BASE + atoi(w[1]) * 4096ul) = atoi(w[2]); r = 0; }
	else { strcpy(result, "UNKNOWN"); return; }
	if (r < 0) snprintf(result, CALL_TEXT_BYTES, "-%s", strerrorname_np(errno));
	else if (!strcmp(w[0], "pipe")) snprintf(result, CALL_TEXT_BYTES, "%d %d", p[0], p[1]);
	else if (!strcmp(w[0], "stat") || !strcmp(w[0], "fstat")) snprintf(result, CALL_TEXT_BYTES, "%ld %ld", (long)st.st_nlink, (long)st.st_size / 4096);
	else snprintf(result, CALL_TEXT_BYTES, "%ld", r);
}
