"""An Airflow of one's own: set up, started, guarded, reached."""
