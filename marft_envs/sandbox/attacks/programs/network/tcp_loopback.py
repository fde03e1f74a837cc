"""Listen on loopback, or talk to what listens there."""
import socket

for family, address in ((socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1"), (socket.AF_INET, "0.0.0.0")):
    try:
        server = socket.socket(family, socket.SOCK_STREAM)
        server.bind((address, 0))
        server.listen()
        print("REACHED a server on", server.getsockname())
    except OSError:
        pass
    for port in (22, 80, 111, 443, 2375, 2376, 5000, 6379, 8080):
        try:
            socket.create_connection((address, port), timeout=0.05)
            print("REACHED port", port)
        except OSError:
            pass
print("contained")
