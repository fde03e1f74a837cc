// Look up names that do not exist: a later program would be told sooner that they do not, where the kernel remembers.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <string>
#include <sys/stat.h>
#include <vector>
using namespace std;
static double ns(const string &name) {
    struct stat found;
    auto start = chrono::steady_clock::now();
    stat(name.c_str(), &found);
    return chrono::duration<double, nano>(chrono::steady_clock::now() - start).count();
}
static double median(vector<double> values) {
    nth_element(values.begin(), values.begin() + values.size() / 2, values.end());
    return values[values.size() / 2];
}
int main() {
    vector<char> other(64 << 20);
    auto key = to_string(chrono::system_clock::now().time_since_epoch().count());
    for (string folder : {"", "/bin", "/usr", "/usr/bin", "/usr/lib", "/usr/lib/x86_64-linux-gnu", "/usr/lib/python3.11",
                          "/usr/local", "/usr/local/lib", "/usr/share/zoneinfo", "/etc", "/var", "/opt", "/home", "/tmp",
                          "/marft", "/marft/bin", "/jail", "/box", "/box/build", ".", "..", "/dev", "/proc", "/sys",
                          "/sys/kernel", "/sys/fs/cgroup"}) {
        struct stat found;
        if (stat((folder + "/").c_str(), &found)) continue;
        vector<string> asked, fresh;
        for (int i = 0; i < 301; i++) {
            asked.push_back(folder + "/" + key + "x" + to_string(i));
            fresh.push_back(folder + "/" + key + "y" + to_string(i));
            stat(asked.back().c_str(), &found);
        }
        // The processor's cache remembers for a moment where the kernel has searched: that is another memory.
        for (size_t i = 0; i < other.size(); i += 64) other[i]++;
        vector<double> again, first;
        for (int i = 0; i < 301; i++) {
            again.push_back(ns(asked[i]));
            first.push_back(ns(fresh[i]));
        }
        double ratio = median(first) / median(again);
        if (ratio > 1.3) printf("REACHED names in %s/, remembered: %.1f times as fast\n", folder.c_str(), ratio);
    }
    puts("contained");
}
