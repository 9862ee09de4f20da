/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What both kinds of hackbench have in common: groups of 20 senders and 20 receivers, as many as it has unless told
 * otherwise; each receiver has a channel of its own, into which every sender of its group writes messages of 100 bytes.
 * A task is a sender, and starts a receiver on its own CPU: as schedulers place them, but here they stay there.
 */
#ifndef HACKBENCH_H
#define HACKBENCH_H

#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

#define MESSAGE 100
#define GROUP 20
#define OTHER_FILES 64

extern void new_task(void *(*func)(void *), void *arg);

struct channel {
	int receiver;
	int sender;
};

static struct channel *channels; /* of all receivers */
static unsigned long nr_channels;

static void die(const char *what)
{
	perror(what);
	_exit(1);
}

static int open_channel(struct channel *channel);

/* Before the tasks start, so that all of them have all channels. */
static void open_channels(unsigned long nr_tasks)
{
	struct rlimit files;

	if (getrlimit(RLIMIT_NOFILE, &files))
		die("hackbench: getrlimit");
	if (files.rlim_cur < 2 * nr_tasks + OTHER_FILES) {
		files.rlim_cur = 2 * nr_tasks + OTHER_FILES;
		if (files.rlim_max < files.rlim_cur)
			files.rlim_max = files.rlim_cur;
		if (setrlimit(RLIMIT_NOFILE, &files))
			die("hackbench: setrlimit");
	}
	channels = calloc(nr_tasks, sizeof(*channels));
	if (!channels)
		die("hackbench: calloc");
	for (nr_channels = 0; nr_channels < nr_tasks; nr_channels++)
		if (open_channel(&channels[nr_channels]))
			die("hackbench: channel");
}

static void *receive(void *arg)
{
	struct channel *channel = arg;
	char message[MESSAGE];

	while (1) {
		for (ssize_t done = 0, some; done < MESSAGE; done += some) {
			some = read(channel->receiver, message + done, MESSAGE - done);
			if (some <= 0)
				die("hackbench: read");
		}
	}
	return NULL;
}

static void send_message(const struct channel *channel)
{
	static const char message[MESSAGE];

	for (ssize_t done = 0, some; done < MESSAGE; done += some) {
		some = write(channel->sender, message + done, MESSAGE - done);
		if (some < 0)
			die("hackbench: write");
	}
}

/* Each sender begins with its own receiver, so that they do not all meet at the first one. */
static void send_to_group(unsigned long long *iterations, unsigned long nr)
{
	unsigned long first = nr / GROUP * GROUP;
	unsigned long size = nr_channels - first < GROUP ? nr_channels - first : GROUP;

	new_task(receive, &channels[nr]);

	for (unsigned long to = nr - first;; to = (to + 1) % size) {
		send_message(&channels[first + to]);
		(*iterations)++;
	}
}

static void close_channels(void)
{
	while (nr_channels--) {
		close(channels[nr_channels].receiver);
		close(channels[nr_channels].sender);
	}
	free(channels);
}

#endif
