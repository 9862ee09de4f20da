/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef MODULES_H
#define MODULES_H

/* Load all that lie in /modules, in the order of their names. Non-zero after reporting which one the kernel refuses. */
int modules_load(void);

#endif
