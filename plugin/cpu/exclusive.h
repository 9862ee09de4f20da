/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef EXCLUSIVE_H
#define EXCLUSIVE_H

#include <stdbool.h>
#include <stdint.h>

/* What a CPU's last exclusive load read, its accesses_site(), and whether the store behind it found something else. */
struct exclusive {
	uint64_t low, high;
	uint64_t site;
	bool failed;
};

#endif
