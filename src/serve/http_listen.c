/* The socket that the server listens at: the first address of a name that can be bound. */
#include "serve/http_int.h"

#include "base/error.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static ig_status listen_at(int *listener_out, int *port_out, const struct addrinfo *at,
                           const ig__http_opts *opts, ig_error *err)
{
    const int on = 1;
    const int fd = socket(at->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return ig__fail(err, IG_ERR_IO, "serve: no socket: %s", strerror(errno));
    (void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    (void)setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on,
                     sizeof on); /* accepted ones inherit */
    if (bind(fd, at->ai_addr, at->ai_addrlen) || listen(fd, 511)) {
        const int why = errno;
        close(fd);
        return ig__fail(err, IG_ERR_IO, "serve: cannot listen at %s, port %d: %s",
                        opts->host, opts->port, strerror(why));
    }
    struct sockaddr_storage bound = {0};
    socklen_t n = sizeof bound;
    (void)getsockname(fd, (struct sockaddr *)&bound, &n);
    *port_out = ntohs(bound.ss_family == AF_INET6
                          ? ((const struct sockaddr_in6 *)(const void *)&bound)->sin6_port
                          : ((const struct sockaddr_in *)(const void *)&bound)->sin_port);
    *listener_out = fd;
    return IG_OK;
}

ig_status ig__http_listen(int *listener_out, int *port_out, const ig_allocator *a,
                          const ig__http_opts *opts, ig_error *err)
{
    char port[16] = "";
    ig__buffer text = ig__buffer_init(a);
    ig__buffer_printf(&text, "%d", opts->port);
    if (text.data && text.n < sizeof port)
        memcpy(port, text.data, text.n + 1);
    ig__buffer_fini(&text);
    const struct addrinfo hints = {
        .ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE};
    struct addrinfo *found = NULL;
    const int why = getaddrinfo(opts->host, port, &hints, &found);
    if (why)
        return ig__fail(err, IG_ERR_ARGUMENT, "serve: no address for host '%s': %s",
                        opts->host, gai_strerror(why));
    ig_status status = IG_ERR_IO;
    for (const struct addrinfo *at = found; at && status != IG_OK; at = at->ai_next)
        status = listen_at(listener_out, port_out, at, opts, err);
    freeaddrinfo(found);
    return status;
}
