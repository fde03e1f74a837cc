"""Reach the cloud's metadata service, a resolver and the world."""
import socket

for address, port in (("169.254.169.254", 80), ("100.100.100.200", 80), ("169.254.170.2", 80), ("1.1.1.1", 53), ("172.17.0.1", 80)):
    for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM):
        try:
            link = socket.socket(socket.AF_INET, kind)
            link.settimeout(0.05)
            link.connect((address, port))
            link.send(b"GET / HTTP/1.0\r\n\r\n")
            print("REACHED", address)
        except OSError:
            pass
try:
    print("REACHED", socket.getaddrinfo("example.org", 80)[0][4])
except OSError:
    print("contained")
