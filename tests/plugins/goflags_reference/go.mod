module goflags_reference

go 1.21
