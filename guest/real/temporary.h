/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Temporary files of a workload on a real machine: none stays there, however the workload ends. What it makes it tells the
 * guard (guard.h), which removes it when all tasks have ended.
 */
#ifndef TEMPORARY_H
#define TEMPORARY_H

/* What a workload calls as mkstemp() and mkdtemp(): bigiron compiles it so (src/bigiron/compile.py). */
int mkstemp_told(char *template);
char *mkdtemp_told(char *template);

/* Where names go from now on, one a message: a socket. */
void temporary_tell(int socket);

/* In the guard: a name that came, without a 0 at its end. */
void temporary_take(const char *name, int length);
/* Remove what still exists of all that came, and of what so many tasks have beside it: NAME.0, NAME.1 and so on. */
void temporary_remove(unsigned long tasks);
/* Before that, report the folders of these that will stay, as what is mounted in them might go. Returns whether any will. */
int temporary_spare(unsigned long tasks);

#endif
