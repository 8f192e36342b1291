/* What is left of WASI: libc's stdio refers to these four, nothing ever prints through it. Defining them here keeps libc's
 * own, which import the host's, out of the module, so its import list is ours alone. */
#include <stdint.h>
#include <wasi/api.h>

__wasi_errno_t __wasi_fd_close(__wasi_fd_t fd)
{
    (void)fd;
    return __WASI_ERRNO_BADF;
}

__wasi_errno_t __wasi_fd_fdstat_get(__wasi_fd_t fd, __wasi_fdstat_t *stat)
{
    (void)fd;
    (void)stat;
    return __WASI_ERRNO_BADF;
}

__wasi_errno_t __wasi_fd_seek(__wasi_fd_t fd, __wasi_filedelta_t offset, __wasi_whence_t whence, __wasi_filesize_t *at)
{
    (void)fd;
    (void)offset;
    (void)whence;
    (void)at;
    return __WASI_ERRNO_BADF;
}

__wasi_errno_t __wasi_fd_write(__wasi_fd_t fd, const __wasi_ciovec_t *vectors, size_t count, __wasi_size_t *written)
{
    (void)fd;
    (void)vectors;
    (void)count;
    (void)written;
    return __WASI_ERRNO_BADF;
}
