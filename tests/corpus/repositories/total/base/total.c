#include <stdio.h>
#include <stdlib.h>

int main(void)
{
    char line[100];
    long sum = 0;

    while (fgets(line, sizeof line, stdin))
        sum += strtol(line, NULL, 8);
    printf("sum %ld\n", sum);
    return 0;
}
