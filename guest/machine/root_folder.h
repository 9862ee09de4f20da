/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The root file system that programs run in: mounted before a machine is kept (boot/root.c), and theirs alone. */
#ifndef ROOT_FOLDER_H
#define ROOT_FOLDER_H

#define ROOT_FOLDER "/programs"

#endif
