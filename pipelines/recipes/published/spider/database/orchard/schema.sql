CREATE TABLE tree (id INTEGER PRIMARY KEY, kind TEXT, planted INTEGER);
CREATE TABLE harvest (tree INTEGER REFERENCES tree(id), year INTEGER, kilos REAL);
INSERT INTO tree VALUES (1, 'apple', 2001), (2, 'pear', 2005), (3, 'apple', 2010), (4, 'plum', 2010);
INSERT INTO harvest VALUES (1, 2022, 80.5), (1, 2023, 75.0), (2, 2022, 60.0), (3, 2023, 41.5), (4, 2022, 20.0), (4, 2023, 25.5);
