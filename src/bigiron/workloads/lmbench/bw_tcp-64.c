// SPDX-License-Identifier: GPL-2.0-or-later
/* A TCP connection over loopback, one way, in short writes: sk_buffs that are filled up, both sockets' queues. */
/* As bw_tcp -m 64 localhost. */
#define MESSAGE 64UL
#define testcase_description long_messages
#define testcase_differs of_long_messages
#include "bw_tcp.c"
#undef testcase_description
#undef testcase_differs

char *testcase_description = "read 64 bytes that a process on the same CPU sends by TCP";
char *testcase_differs = "both processes of the pair on one CPU";
