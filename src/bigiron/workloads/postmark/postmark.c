// SPDX-License-Identifier: GPL-2.0-or-later
/* Inodes and directory entries that come and go, in the task's own directories; short reads and writes. */
/* As postmark with the robot's sizes. */
#define _GNU_SOURCE
#include <ftw.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

char *testcase_description = "read or append to a mail of 10 to 20 kB; create or delete another";

#define MAILS 256
#define DIRECTORIES 25
#define LEAST 10000
#define MOST 20000
#define AT_ONCE 512

struct task {
	unsigned long nr, chance;
	unsigned int size[2 * MAILS]; /* of each mail; 0: there is none */
};

static char folder[] = "/tmp/postmark.XXXXXX";

static void die(const char *what)
{
	perror(what);
	_exit(1);
}

/* Marsaglia's xorshift. */
static unsigned long random_below(struct task *task, unsigned long limit)
{
	task->chance ^= task->chance << 13;
	task->chance ^= task->chance >> 7;
	task->chance ^= task->chance << 17;
	return (task->chance >> 16) % limit;
}

/* One that exists, or does not. */
static unsigned long pick(struct task *task, int exists)
{
	unsigned long mail;

	do
		mail = random_below(task, 2 * MAILS);
	while (exists != (task->size[mail] > 0));
	return mail;
}

static void path_of(char path[PATH_MAX], const struct task *task, unsigned long mail)
{
	snprintf(path, PATH_MAX, "%s/%lu/s%lu/%lu", folder, task->nr, mail % DIRECTORIES, mail);
}

static FILE *open_mail(struct task *task, unsigned long mail, const char *mode)
{
	char path[PATH_MAX];
	FILE *file;

	path_of(path, task, mail);
	file = fopen(path, mode);
	if (!file)
		die("postmark: fopen");
	return file;
}

static void write_mail(struct task *task, unsigned long mail, const char *mode, unsigned long bytes)
{
	FILE *file = open_mail(task, mail, mode);
	static const char text[AT_ONCE] = "text";

	task->size[mail] += bytes;
	for (unsigned long some; bytes; bytes -= some) {
		some = bytes < AT_ONCE ? bytes : AT_ONCE;
		if (fwrite(text, 1, some, file) != some)
			die("postmark: fwrite");
	}
	if (fclose(file))
		die("postmark: fclose");
}

static void create_mail(struct task *task)
{
	write_mail(task, pick(task, 0), "w", LEAST + random_below(task, MOST - LEAST));
}

static void read_mail(struct task *task)
{
	FILE *file = open_mail(task, pick(task, 1), "r");
	char text[AT_ONCE];

	while (fread(text, 1, AT_ONCE, file))
		;
	fclose(file);
}

static void append_to_mail(struct task *task)
{
	unsigned long mail = pick(task, 1);

	if (task->size[mail] < MOST)
		write_mail(task, mail, "a+", 1 + random_below(task, MOST - task->size[mail]));
}

static void delete_mail(struct task *task)
{
	unsigned long mail = pick(task, 1);
	char path[PATH_MAX];

	path_of(path, task, mail);
	if (unlink(path))
		die("postmark: unlink");
	task->size[mail] = 0;
}

static void make_directories(unsigned long nr)
{
	char path[PATH_MAX];

	snprintf(path, sizeof(path), "%s/%lu", folder, nr);
	if (mkdir(path, 0755))
		die("postmark: mkdir");
	for (int directory = 0; directory < DIRECTORIES; directory++) {
		snprintf(path, sizeof(path), "%s/%lu/s%d", folder, nr, directory);
		if (mkdir(path, 0755))
			die("postmark: mkdir");
	}
}

void testcase_prepare(unsigned long nr_tasks)
{
	if (!mkdtemp(folder))
		die("postmark: mkdtemp");
	for (unsigned long nr = 0; nr < nr_tasks; nr++)
		make_directories(nr);
}

void testcase(unsigned long long *iterations, unsigned long nr)
{
	struct task task = { .nr = nr, .chance = (2 * nr + 1) * 0x9e3779b97f4a7c15 };

	for (int mails = 0; mails < MAILS; mails++)
		create_mail(&task);
	while (1) {
		(random_below(&task, 2) ? read_mail : append_to_mail)(&task);
		(random_below(&task, 2) ? create_mail : delete_mail)(&task);
		(*iterations)++;
	}
}

static int remove_one(const char *path, const struct stat *status, int type, struct FTW *walk)
{
	(void)status, (void)type, (void)walk;
	return remove(path);
}

void testcase_cleanup(void)
{
	if (nftw(folder, remove_one, 16, FTW_DEPTH | FTW_PHYS))
		die("postmark: remove");
}
