// SPDX-License-Identifier: GPL-2.0-or-later
/* 100 descriptors of one struct file, a TCP connection: its reference count, tcp_poll(), the socket's memory. */
/* As lat_select -n 100 tcp. */
#define OF_TCP 1
#define testcase_description of_a_file
#include "select.c"
#undef testcase_description

char *testcase_description = "select on 100 descriptors of the task's own TCP connection";
