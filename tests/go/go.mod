module flamelet/tests

go 1.19
