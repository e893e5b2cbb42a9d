module notedtime

go 1.24
