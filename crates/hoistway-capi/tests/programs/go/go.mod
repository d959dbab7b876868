module hoistway.invalid/drive

go 1.24
