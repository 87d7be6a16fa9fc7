/* A signal handler can reach nothing but globals: those of Ctrl-C stand here. */
#include "interrupt.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stddef.h>
#include <unistd.h>

static volatile int interrupted; /* written by the handler and interrupt_clear only */
static volatile int second_ends;
static int wake[2] = {-1, -1}; /* a pipe, both ends never waiting; -1: none */

static void on_interrupt(int number)
{
    const int kept = errno;
    if (interrupted && second_ends) {
        signal(number, SIG_DFL);
        raise(number);
    }
    interrupted = 1;
    if (wake[1] >= 0 && write(wake[1], "", 1) < 0)
        errno = kept; /* full: a byte is there already */
}

void interrupt_catch(bool twice_ends)
{
    if (wake[0] < 0 && pipe2(wake, O_CLOEXEC | O_NONBLOCK))
        wake[0] = wake[1] = -1;
    interrupt_clear();
    second_ends = twice_ends;
    /* no SA_RESTART: a read that waits for the keyboard returns */
    struct sigaction action = {.sa_handler = on_interrupt};
    sigemptyset(&action.sa_mask);
    sigaction(SIGINT, &action, NULL);
}

void interrupt_release(void)
{
    signal(SIGINT, SIG_DFL);
}

const volatile int *interrupt_flag(void)
{
    return &interrupted;
}

int interrupt_fd(void)
{
    return wake[0];
}

void interrupt_clear(void)
{
    interrupted = 0; /* first: a Ctrl-C from here on leaves its flag */
    char bytes[64];
    while (wake[0] >= 0 && read(wake[0], bytes, sizeof bytes) > 0)
        ;
}
