"""An Airflow of one's own: its folder and secrets, its services, and what keeps them."""
