/* The process that holds a pod's namespaces: it reaps orphans and ends on SIGTERM or SIGINT.
 * Given arguments, it first runs them to their end and gives up when they fail: so it can set up the namespaces it holds. */
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

static void on_end(int signal) {
    (void)signal;
    _exit(0);
}

static void on_child(int signal) {
    (void)signal;
    while (waitpid(-1, 0, WNOHANG) > 0) {
    }
}

int main(int count, char **arguments) {
    struct sigaction end = {.sa_handler = on_end};
    sigaction(SIGTERM, &end, 0);
    sigaction(SIGINT, &end, 0);

    if (count > 1) {
        int status = 1;
        pid_t child = fork();
        if (child == 0) {
            execvp(arguments[1], arguments + 1);
            _exit(127);
        }
        if (child < 0 || waitpid(child, &status, 0) != child || status != 0)
            return 1;
    }

    struct sigaction reap = {.sa_handler = on_child, .sa_flags = SA_NOCLDSTOP | SA_RESTART};
    sigaction(SIGCHLD, &reap, 0);
    on_child(0);
    for (;;)
        pause();
}
