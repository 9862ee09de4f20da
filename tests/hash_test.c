// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Drives the recorder's hash table. Standard input, a command a line:
 *
 *	table KEY_WORDS MAX_BYTES
 *	add WEIGHT KEY...	to the entry's sum
 *	fill COUNT FIRST	add 1 to the entries of so many keys
 *	find KEY...		print the entry's sum, or none
 *
 * Standard output: what was found, and in the end each entry: its key, its sum. Standard error: the table's numbers.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../plugin/lib/hash.h"

#define MAX_WORDS 3

static struct hash_table table;
static struct hash_type type;

/* An entry's sum comes after its key. */
static uint64_t *sum(void *entry)
{
	return (uint64_t *)entry + type.key_words;
}

static void add(const uint64_t key[MAX_WORDS], uint64_t weight)
{
	uint64_t *entry = hash_add(&table, &type, key, weight);

	if (entry)
		*sum(entry) += weight;
}

static void find(const uint64_t key[MAX_WORDS])
{
	uint64_t *entry;

	hash_prefetch(&table, &type, hash(key, type.key_words));
	entry = hash_find(&table, &type, key);
	if (entry)
		printf("%" PRIu64 "\n", *sum(entry));
	else
		puts("none");
}

static void obey(const char *line)
{
	uint64_t key[MAX_WORDS] = { 0 }, number;
	unsigned int words;

	if (sscanf(line, "table %u %" SCNu64, &words, &number) == 2) {
		hash_free(&table, &type);
		type = (struct hash_type){ (words + 1) * sizeof(uint64_t), words };
		table = (struct hash_table){ .max_bytes = number };
	} else if (sscanf(line, "add %" SCNu64 "%" SCNx64 "%" SCNx64 "%" SCNx64, &number, &key[0], &key[1],
			  &key[2]) > 1) {
		add(key, number);
	} else if (sscanf(line, "fill %" SCNu64 "%" SCNx64, &number, &key[0]) == 2) {
		for (; number; number--, key[0]++)
			add(key, 1);
	} else if (sscanf(line, "find %" SCNx64 "%" SCNx64 "%" SCNx64, &key[0], &key[1], &key[2]) > 0) {
		find(key);
	} else {
		fprintf(stderr, "what is '%s'?\n", line);
		exit(1);
	}
}

int main(void)
{
	char line[256];
	uint64_t *entry;

	while (fgets(line, sizeof(line), stdin))
		obey(line);
	hash_for_each(entry, &table, &type) {
		for (unsigned int word = 0; word < type.key_words; word++)
			printf("%" PRIx64 " ", entry[word]);
		printf("%" PRIu64 "\n", *sum(entry));
	}
	fprintf(stderr, "{\"used\": %" PRIu64 ", \"lost\": %" PRIu64 ", \"bytes\": %" PRIu64 "}\n", table.used,
		table.lost, table.capacity * type.entry_bytes);
	hash_free(&table, &type);
	return 0;
}
