// SPDX-License-Identifier: GPL-2.0-or-later
/* The task's own System V semaphore: its lock, IPC's lookup under RCU; a segment that the task has attached. */
/* As shared_memory(), which makes segment and semaphore again after 100 operations. */
#include "messages.h"

#include <sys/ipc.h>
#include <sys/sem.h>
#include <sys/shm.h>

char *testcase_description = "copy bytes to shared memory and back, each under a System V semaphore";

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

static int make_semaphore(void)
{
	int semaphore = semget(IPC_PRIVATE, 1, IPC_CREAT | 0666);

	if (semaphore < 0)
		die("shared_memory: semget");
	change(semaphore, 1);
	return semaphore;
}

static char *attach_segment(int *segment)
{
	char *memory;

	*segment = shmget(IPC_PRIVATE, 65536, IPC_CREAT | 0666);
	memory = *segment < 0 ? (void *)-1 : shmat(*segment, NULL, 0);
	if (memory == (void *)-1 || shmctl(*segment, IPC_RMID, NULL))
		die("shared_memory: shmget");
	return memory;
}

/* The segment is gone when it is detached. A task that is killed leaves a semaphore. */
void testcase(unsigned long long *iterations, unsigned long nr)
{
	char own[4096] = { 0 }, *memory;
	int semaphore, segment;

	for (nr = 0;;) {
		semaphore = make_semaphore();
		memory = attach_segment(&segment);
		for (int turn = 0; turn < 100; turn++, nr++) {
			copy(semaphore, memory, own, lengths[nr % LENGTHS]);
			copy(semaphore, own, memory, lengths[nr % LENGTHS]);
			(*iterations)++;
		}
		if (shmdt(memory) || semctl(semaphore, 0, IPC_RMID))
			die("shared_memory: shmdt");
	}
}
