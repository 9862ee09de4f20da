// SPDX-License-Identifier: GPL-2.0-or-later
#include "protocol/folder.h"

#include <string.h>

static const char *folder;

int folder_init(const char *name)
{
	folder = strdup(name);
	return folder ? 0 : -1;
}

FILE *folder_open(const char *name, const char *mode)
{
	char path[4096];

	if (snprintf(path, sizeof(path), "%s/%s", folder, name) >= (int)sizeof(path))
		return NULL;
	return fopen(path, mode);
}
