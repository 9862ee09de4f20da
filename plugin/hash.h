/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef HASH_H
#define HASH_H

#include <stdint.h>

static inline uint64_t hash(uint64_t a, uint64_t b)
{
	uint64_t h = (a ^ b * 0x9e3779b97f4a7c15) * 0xbf58476d1ce4e5b9;

	return h ^ h >> 32;
}

#endif
