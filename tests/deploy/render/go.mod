module plimsoll/render

go 1.19
