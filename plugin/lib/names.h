/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Names, of symbols and others, compared. */
#ifndef NAMES_H
#define NAMES_H

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

static inline bool starts_with(const char *symbol, const char *prefix)
{
	return !strncmp(symbol, prefix, strlen(prefix));
}

/* Called for each symbol and each name of interest: most begin with different letters. */
static inline bool is_name(const char *symbol, size_t length, const char *name)
{
	return *symbol == *name && !strncmp(symbol, name, length) && !name[length];
}

static inline bool is_one_of(const char *symbol, size_t length, const char *const *names, size_t nr_names)
{
	for (size_t i = 0; i < nr_names; i++)
		if (is_name(symbol, length, names[i]))
			return true;
	return false;
}

#define IS_ONE_OF(name, length, names) is_one_of(name, length, names, sizeof(names) / sizeof(*(names)))

#endif
