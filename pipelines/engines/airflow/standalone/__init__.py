"""An Airflow of one's own on this machine: its services, and what keeps them."""
