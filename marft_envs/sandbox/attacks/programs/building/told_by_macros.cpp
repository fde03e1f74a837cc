// Learn from the compiler's macros where it runs: folders of the host in the names of files.
#include <cstdio>
#include <initializer_list>
#include <cstring>
int main() {
    for (const char* name : {__FILE__, __BASE_FILE__}) {
        puts(name);
        if (strchr(name, '/')) puts("REACHED a folder's name");
    }
}
