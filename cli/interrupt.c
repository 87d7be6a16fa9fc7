/* A signal handler can reach nothing but globals: the two of the command stand here. */
#include "interrupt.h"

#include <signal.h>
#include <stddef.h>

static volatile int interrupted; /* written by the handler and interrupt_clear only */
static volatile int second_ends;

static void on_interrupt(int number)
{
    if (interrupted && second_ends) {
        signal(number, SIG_DFL);
        raise(number);
    }
    interrupted = 1;
}

void interrupt_catch(bool twice_ends)
{
    interrupted = 0;
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

void interrupt_clear(void)
{
    interrupted = 0;
}
