module example.org/brackets

go 1.19
