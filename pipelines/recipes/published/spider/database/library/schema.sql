CREATE TABLE book (id INTEGER PRIMARY KEY, title TEXT, author INTEGER REFERENCES author(id), year INTEGER);
CREATE TABLE author (id INTEGER PRIMARY KEY, name TEXT, country TEXT);
INSERT INTO author VALUES (1, 'Ada Moor', 'Ireland'), (2, 'Ben Tide', 'Kenya'), (3, 'Cleo Fen', 'Ireland');
INSERT INTO book VALUES (1, 'Salt', 1, 1998), (2, 'Rope', 2, 2004), (3, 'Fog', 1, 2011), (4, 'Oar', 3, 2011), (5, 'Net', 2, 1987);
