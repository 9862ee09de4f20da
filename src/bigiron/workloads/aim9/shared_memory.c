// SPDX-License-Identifier: GPL-2.0-or-later
/* The task's own System V semaphore: its lock, IPC's lookup under RCU; a segment that the task has attached. */
/* As shared_memory(), which makes another segment and semaphore after 100 operations. */
#include "messages.h"

#include <sys/ipc.h>
#include <sys/sem.h>
#include <sys/shm.h>

char *testcase_description = "copy bytes to shared memory and back, each under a System V semaphore";

static unsigned long nr_semaphores;
static int *semaphores; /* of the tasks: a task that is killed leaves its own */

static void change(int semaphore, short by)
{
	struct sembuf operation = { .sem_op = by };

	if (semop(semaphore, &operation, 1))
		die("shared_memory: semop");
}

static void copy(int semaphore, void *to, const void *from, int length)
{
	change(semaphore, -1);
	memcpy(to, from, length);
	change(semaphore, 1);
}

void testcase_prepare(unsigned long nr_tasks)
{
	semaphores = calloc(nr_tasks, sizeof(*semaphores));
	if (!semaphores)
		die("shared_memory: calloc");
	for (; nr_semaphores < nr_tasks; nr_semaphores++) {
		semaphores[nr_semaphores] = semget(IPC_PRIVATE, 1, IPC_CREAT | 0600);
		if (semaphores[nr_semaphores] < 0)
			die("shared_memory: semget");
		change(semaphores[nr_semaphores], 1);
	}
}

/* The segment is gone when no task has it attached. */
static char *attach_segment(void)
{
	int segment = shmget(IPC_PRIVATE, 65536, IPC_CREAT | 0600);
	char *memory = segment < 0 ? (void *)-1 : shmat(segment, NULL, 0);

	if (memory == (void *)-1 || shmctl(segment, IPC_RMID, NULL))
		die("shared_memory: shmget");
	return memory;
}

void testcase(unsigned long long *iterations, unsigned long nr)
{
	char own[4096] = { 0 }, *memory = attach_segment();

	for (unsigned long done = 0;; done++) {
		copy(semaphores[nr], memory, own, lengths[done % LENGTHS]);
		copy(semaphores[nr], own, memory, lengths[done % LENGTHS]);
		(*iterations)++;
	}
}

void testcase_cleanup(void)
{
	while (nr_semaphores--)
		semctl(semaphores[nr_semaphores], 0, IPC_RMID);
	free(semaphores);
}
