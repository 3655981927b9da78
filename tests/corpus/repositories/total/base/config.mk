CC = cc
CFLAGS = -Wall
