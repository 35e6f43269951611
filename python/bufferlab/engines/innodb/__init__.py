"""The code that MySQL and MariaDB share: InnoDB's knobs, and how private servers are found, started and read back."""
