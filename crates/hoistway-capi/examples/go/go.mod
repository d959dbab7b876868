module hoistway.invalid/front

go 1.24
